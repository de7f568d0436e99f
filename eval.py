"""Judge a checkpoint or a model folder: `python eval.py experiment=household_demo model.path=runs/models/mine`."""

if __name__ == "__main__":
    from sharpo.installed import require

    require()
    from sharpo.cli import evaluate, main

    main(evaluate, "eval")
