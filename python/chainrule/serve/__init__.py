"""A server for one language model, with OpenAI's interface: ``python -m chainrule.serve --model DIR``.

It needs the package h11: ``pip install chainrule[serve]``."""
