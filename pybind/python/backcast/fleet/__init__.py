"""Actors in processes of their own: started, watched, restarted and stopped.

.. code-block:: python

    def act(context, ring):
        with bc.ReplayBuffer.attach(ring) as buf, buf.writer() as writer:
            while not context.stopped:
                ...
                context.report(return_=total, length=steps, version=version, epsilon=epsilon)


    if __name__ == "__main__":
        with bc.Fleet(act, n=4, args=("pong",)) as fleet:
            ...
            print(fleet.stats()["return_mean"])
"""

from backcast.fleet._context import Context, context, report
from backcast.fleet._fleet import Fleet
from backcast.fleet._stats import ActorStats, FleetStats, NumberStats

__all__ = ["ActorStats", "Context", "Fleet", "FleetStats", "NumberStats", "context", "report"]
