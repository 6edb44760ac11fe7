"""`make pipeline-demo`: the flights go through the whole pipeline, and an audit says that all of them came back."""
