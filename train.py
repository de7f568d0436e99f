"""Train an agent: `python train.py experiment=household_demo`."""

if __name__ == "__main__":
    from sharpo.installed import require

    require()
    from sharpo.cli import main

    main()
