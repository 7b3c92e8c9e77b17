"""What is known of all objects: an index of teams, used by a handler, and told by the probe.

Run with: kopf dev operator.py -f configmaps.yaml --liveness=http://localhost:8080/healthz
Then: curl http://localhost:8080/healthz; curl http://localhost:8080/metrics
"""
import kopf

TEAM = 'example.com/team'


@kopf.index('configmaps', labels={TEAM: kopf.PRESENT})
def teams(labels, name, **_):
    return {labels[TEAM]: name}


@kopf.on.create('configmaps', labels={TEAM: kopf.PRESENT})
def tell_others(labels, name, teams, logger, **_):
    others = sorted(other for other in teams[labels[TEAM]] if other != name)
    logger.info(f"Others of the team: {', '.join(others) or 'none'}.")


@kopf.on.probe(id='teams')
def count_teams(teams, **_):
    return {team: len(names) for team, names in teams.items()}
