"""The Python interface: Advisor and the public functions. Imports all below the command line."""
