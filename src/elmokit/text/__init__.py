"""From strings to tensors: normalisation, tokenizers, character ids, vocabulary and batches.

Nothing here knows the network. Text is normalised once (NFC unless told otherwise), split into
tokens that remember where they stood in the original string, and turned into ids.
"""
