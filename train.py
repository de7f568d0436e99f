"""Train an agent: `python train.py experiment=household_demo`."""

if __name__ == "__main__":
    from sharpo.installed import require

    require()
    try:
        from sharpo.cli import main
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    main()
