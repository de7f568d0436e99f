"""SearchQA: questions that an agent answers with the help of a search tool."""

from sharpo.envs.searchqa.env import SearchQA

__all__ = ["SearchQA"]
