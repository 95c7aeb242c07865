"""Models of Hugging Face transformers and diffusers from a configuration file."""
