"""Manual scheduling and hints: a batch model stands still for as long as an urgent one has work."""

from gpu import GPU, Model

import xmsched


def main():
    gpu = GPU()
    batch, urgent = Model(gpu, 40, 30_000), Model(gpu, 4, 30_000)
    with xmsched.XQueue(batch, threshold=4, batch_size=2) as queue:
        for _ in range(batch.layers):
            queue.submit(batch.layer)
        for request in range(3):
            with queue.suspended():  # what was outstanding, at most four layers, is done
                before = queue.info().completed
                for _ in range(urgent.layers):
                    urgent.layer()
                urgent.synchronize()
                urgent.verify()
                print(f"request {request}: the batch stood still: {queue.info().completed == before}")
        queue.wait(timeout=60)
        print(f"batch: {queue.info().completed} layers done")
    batch.verify()


if __name__ == "__main__":
    main()
