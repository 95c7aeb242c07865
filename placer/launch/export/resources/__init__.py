"""Parts of a target's files: Kubernetes pods, CloudFormation resources, aggregator function."""
