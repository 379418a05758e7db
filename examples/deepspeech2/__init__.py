"""Deep Speech 2 (Amodei et al. 2015) on the fused layers. docs/deepspeech2.md tells how to run it."""
