"""The tokenizers, one per file; `elmokit.text.tokenize.load_tokenizer` finds them by name."""
