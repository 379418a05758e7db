"""Programs that run one peer each, as scripts; see worker.py."""
