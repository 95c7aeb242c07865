"""Commands that export, run and rehearse a manifest."""
