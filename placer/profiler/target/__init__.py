"""What is measured: a function of the user, a built-in model, a Hugging Face configuration."""
