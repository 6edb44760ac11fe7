"""Topics read beside the broker that writes them: which there are, and what of them is committed."""
