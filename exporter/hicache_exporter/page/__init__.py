"""The live page: served as it is, without a build step."""
