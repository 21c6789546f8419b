"""A queue of the program's own: an "accelerator" that is a thread, in place of whatever a vendor's runtime gives."""

import queue
import threading
import time

import xmsched


class Accelerator:
    """Works jobs off in their order. Three methods and a name are all that an XQueue needs."""

    device = "accelerator 0"

    def __init__(self):
        self.jobs = queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            self.jobs.get()()

    def mark(self):
        passed = threading.Event()
        self.jobs.put(passed.set)
        return passed

    def wait(self, passed):
        passed.wait()

    def synchronize(self):
        self.wait(self.mark())


def main():
    xmsched.set_policy("HPF")
    fast, slow = Accelerator(), Accelerator()
    with xmsched.XQueue(fast, priority=1) as urgent, xmsched.XQueue(slow, threshold=2, batch_size=1) as batch:
        for _ in range(50):
            batch.submit(lambda: slow.jobs.put(lambda: time.sleep(0.001)))
        command = urgent.submit(lambda: fast.jobs.put(lambda: time.sleep(0.02)))
        launched = batch.info().launched  # no more of these while the urgent one has work
        command.wait(timeout=60)
        print(f"launched beside the urgent command: {batch.info().launched - launched}")
        batch.wait(timeout=60)
        print(f"batch: {batch.info().completed} commands done")


if __name__ == "__main__":
    main()
