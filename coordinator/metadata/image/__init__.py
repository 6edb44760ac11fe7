"""The metadata image: what a cluster's metadata log says, and how records become an image and an image records."""
