"""Parts of a target's files: Kubernetes pods, CloudFormation resources and the aggregator function."""
