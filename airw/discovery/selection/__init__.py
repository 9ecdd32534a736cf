"""Committing to the few hits worth acting on, or to none: by rules over the scores, or by asking a language model."""
