"""An index of teams: a handler looks objects up in it, and the probe reports it.

Run with: kopf dev operator.py -f configmaps.yaml --liveness=http://localhost:8080/healthz
Then: curl http://localhost:8080/healthz; curl http://localhost:8080/metrics
"""
import kopf

TEAM = 'example.com/team'


@kopf.index('configmaps', labels={TEAM: kopf.PRESENT})
def teams(labels, name, **_):
    return {labels[TEAM]: name}


@kopf.on.create('configmaps', labels={TEAM: kopf.PRESENT})
def log_others(labels, name, teams, logger, **_):
    others = sorted(other for other in teams[labels[TEAM]] if other != name)
    logger.info(f"Others of the team: {', '.join(others) or 'none'}.")


@kopf.on.probe(id='teams')
def count_teams(teams, **_):
    return {team: len(names) for team, names in teams.items()}
