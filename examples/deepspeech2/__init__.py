"""Deep Speech 2 (Amodei et al. 2015) on the fused layers; see docs/deepspeech2.md."""
