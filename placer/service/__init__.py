"""The HTTP service: the questions of the command line, asked over HTTP."""
