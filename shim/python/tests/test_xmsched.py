"""The Python interface over a hardware queue of the test's own; the CUDA half is in the examples."""

import gc
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest
import weakref

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import xmsched  # noqa: E402


class Hardware:
    """Commands are done in their order, once allowed."""

    device = "test device"

    def __init__(self, free=True):
        self.moved = threading.Condition()
        self.free = free
        self.broken = False
        self.launched = []
        self.allowed = 0

    def launch(self, name):
        with self.moved:
            self.launched.append(name)
        return name

    def mark(self):
        with self.moved:
            return len(self.launched)

    def wait(self, marker):
        with self.moved:
            self.moved.wait_for(lambda: self.free or self.broken or self.allowed >= marker)
            if self.broken:
                raise RuntimeError("the test's hardware is broken")

    def synchronize(self):
        self.wait(self.mark())

    def let(self, count=0, free=False, broken=False):
        with self.moved:
            self.allowed += count
            self.free = self.free or free
            self.broken = broken
            self.moved.notify_all()

    def settled(self, count, patience=0.05):
        """Whether count commands are launched, and stay that many for a while."""
        time.sleep(patience)
        return len(self.launched) == count

    def reach(self, count):
        end = time.monotonic() + 10
        while len(self.launched) < count and time.monotonic() < end:
            time.sleep(0.001)
        return len(self.launched) >= count


class QueueTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(xmsched.unset_policy)

    def test_commands(self):
        hardware = Hardware()
        with xmsched.XQueue(hardware) as q:
            commands = [q.submit(lambda n=n: hardware.launch(n)) for n in range(200)]
            q.wait(timeout=10)
            self.assertEqual(hardware.launched, list(range(200)))
            for n, c in enumerate(commands):
                self.assertEqual(c.wait(timeout=10), n)
                self.assertEqual(c.wait(), n)
            info = q.info()
            self.assertEqual((info.device, info.submitted, info.completed), ("test device", 200, 200))
            self.assertTrue(q.idle)
        q.close()
        with self.assertRaises(xmsched.NotFound):
            q.submit(lambda: None)

    def test_launch_is_here(self):
        hardware = Hardware()
        with xmsched.XQueue(hardware) as q:
            with q.launch() as command:
                hardware.launch(threading.get_ident())
            command.wait(timeout=10)
            self.assertEqual(hardware.launched, [threading.get_ident()])
            with self.assertRaises(ZeroDivisionError):
                with q.launch() as command:
                    1 / 0
            with self.assertRaises(ZeroDivisionError):
                command.wait(timeout=10)
            with q.launch():  # the queue goes on
                hardware.launch("after")

    def test_exceptions_are_the_commands(self):
        with xmsched.XQueue(Hardware()) as q:
            bad = q.submit(lambda: 1 / 0)
            good = q.submit(lambda: "fine")
            for _ in range(2):
                with self.assertRaises(ZeroDivisionError):
                    bad.wait(timeout=10)
            self.assertEqual(good.wait(timeout=10), "fine")

    def test_suspend(self):
        hardware = Hardware()
        with xmsched.XQueue(hardware) as q:
            with q.suspended():
                command = q.submit(lambda: hardware.launch(1))
                self.assertTrue(q.info().suspended)
                with self.assertRaises(TimeoutError):
                    command.wait(timeout=0.02)
                q.configure(threshold=2)  # a suspended queue can be configured
                self.assertEqual(hardware.launched, [])
            command.wait(timeout=10)
            q.suspend()
            dropped = q.submit(lambda: hardware.launch(2))
            q.resume(drop=True)
            with self.assertRaises(xmsched.Dropped):
                dropped.wait(timeout=10)
            self.assertEqual(xmsched._queue._waiting, {})
            q.suspend(wait_all=True, wait_idle=True)
            q.submit(lambda: hardware.launch(3))
        self.assertEqual(hardware.launched, [1, 3])  # closing let it out

    def test_values(self):
        with xmsched.XQueue(Hardware(), priority=3, weight=2, threshold=4) as q:
            self.assertEqual((q.info().threshold, q.info().batch_size), (4, 4))
            for hint in (
                {"priority": 256}, {"priority": -256}, {"utilization": 101}, {"weight": -1}, {"deadline": 1e-6},
                {"laxity": 0.001, "laxity_priorities": (2, 1)}, {"idle_after": 100}, {"quantum": 11}, {"min_share": 2},
                {"execute": True}, {"utilization": 2**32 + 5}, {"weight": 2**64 + 1}, {"deadline": -1e-6},
                {"deadline": float("nan")}, {"deadline": float("inf")}, {"quantum": 2**70}, {"min_share": float("nan")},
                {"laxity": 0.001, "laxity_priorities": (2**32 + 1, 2**32 + 2)}, {"priority": 2**32},
            ):
                with self.subTest(hint), self.assertRaises(ValueError):
                    q.hint(**{"quantum": 0.002, "utilization": 7, "laxity": 0.5, **hint})
            self.assertEqual(q.hints(), {"priority": "3", "weight": "2"})  # none of them was changed
            q.hint(quantum=0.002)
            self.assertEqual(q.hints(), {"priority": "3", "weight": "2", "quantum": "2ms"})
            q.hint(priority=255, utilization=10, deadline=0.01, laxity=0.002, idle_after=0.001, quantum=0.005, min_share=0.1)
            q.hint(execute=False)
            with self.assertRaises(ValueError):
                q.configure(batch_size=5)
            for sizes in ({"threshold": 0}, {"threshold": 2**64 + 16}, {"batch_size": 2**64 + 1}):
                with self.subTest(sizes), self.assertRaises(ValueError):
                    q.configure(**sizes)
            self.assertEqual((q.info().threshold, q.info().batch_size), (4, 4))
            with self.assertRaises(ValueError):
                q.wait(timeout=float("nan"))
        for stream in (None, "a stream", -1, 2.5, True):
            with self.subTest(stream), self.assertRaises(ValueError):
                xmsched.XQueue(stream)
        with self.assertRaises(ValueError):
            xmsched.set_policy("no such policy")
        for seconds in (0, -1e-6, float("nan"), 2**70):
            with self.subTest(seconds), self.assertRaises(ValueError):
                xmsched.set_timeslice(seconds)
        for k in (0, -1, 2**64 + 1):
            with self.subTest(k), self.assertRaises(ValueError):
                xmsched.set_k_deadline(k)
        self.assertIn("HPF", xmsched.policies())

    def test_priorities(self):
        xmsched.set_policy("HPF")
        urgent, batch = Hardware(free=False), Hardware()
        with xmsched.XQueue(urgent, priority=1) as high, xmsched.XQueue(batch, threshold=1) as low:
            command = high.submit(lambda: urgent.launch(0))
            self.assertFalse(low.info().open)
            awaited = low.submit(lambda: batch.launch(0))
            low.submit(lambda: batch.launch(1))
            self.assertTrue(batch.settled(0))
            # A running queue that waits for a stopped one lends it its turn.
            behind = high.submit(lambda: urgent.launch(1), after=awaited)
            awaited.wait(timeout=10)
            self.assertTrue(batch.settled(1))
            urgent.let(free=True)
            command.wait(timeout=10)
            behind.wait(timeout=10)
            self.assertTrue(batch.reach(2))
        xmsched.set_policy("RR")

    def test_threads(self):
        xmsched.set_policy("HPF")
        hardware = [Hardware(), Hardware()]
        with xmsched.XQueue(hardware[0]) as a, xmsched.XQueue(hardware[1], priority=1) as b:

            def work(q, h):
                for n in range(100):
                    if n % 2:
                        with q.launch():
                            h.launch(n)
                    else:
                        q.submit(lambda: h.launch(n))

            threads = [threading.Thread(target=work, args=(q, h)) for q, h in zip((a, b, a, b), hardware * 2)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            a.wait(timeout=10)
            b.wait(timeout=10)
        self.assertEqual([len(h.launched) for h in hardware], [200, 200])

    def test_broken_hardware(self):
        hardware = Hardware(free=False)
        q = xmsched.XQueue(hardware)
        command = q.submit(lambda: hardware.launch(0))
        saved, sys.stderr = sys.stderr, open(os.devnull, "w")  # the traceback is told there
        try:
            hardware.let(broken=True)
            with self.assertRaises(xmsched.HardwareError):
                command.wait(timeout=10)
            with self.assertRaises(xmsched.HardwareError):
                q.close()
        finally:
            sys.stderr.close()
            sys.stderr = saved

    def test_left_open(self):
        """A program that ends with commands in a suspended queue ends, and quietly."""
        text = (
            "import sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])\n"
            "import xmsched, test_xmsched\n"
            "h = test_xmsched.Hardware()\nq = xmsched.XQueue(h)\nq.suspend()\n"
            "q.submit(lambda: h.launch(1))\nprint('end')\n"
        )
        here = pathlib.Path(__file__).resolve().parent
        done = subprocess.run(
            [sys.executable, "-c", text, str(here), str(here.parent)], capture_output=True, text=True, timeout=60
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))

    def test_forgotten(self):
        """A queue that the program holds no more works off what it has, by functions that are still there."""
        hardware = Hardware(free=False)
        q = xmsched.XQueue(hardware, threshold=8, batch_size=1)
        for n in range(8):
            q.submit(lambda n=n: hardware.launch(n))
        self.assertTrue(hardware.reach(8))
        held = weakref.ref(q)
        del q
        for _ in range(8):
            gc.collect()
            hardware.let(1)
        q = held()
        self.assertIsNotNone(q)
        q.wait(timeout=10)
        q.close()

    def test_long_device_name(self):
        hardware = Hardware()
        hardware.device = "\u00e9" * 100
        with xmsched.XQueue(hardware) as q:
            self.assertTrue(q.info().device.startswith("\u00e9" * 31))

    def test_left_in_use(self):
        """A program that ends while other threads submit ends soon: what comes after the end is refused."""
        text = (
            "import sys; sys.path.insert(0, sys.argv[1]); sys.path.insert(0, sys.argv[2])\n"
            "import threading, time, xmsched, test_xmsched\n"
            "def use(q):\n"
            "    try:\n"
            "        while True: q.submit(lambda: None)\n"
            "    except xmsched.NotFound: pass\n"
            "for hints in ({}, {'execute': False}, {}):\n"
            "    xmsched.set_policy('HPF')\n"
            "    q = xmsched.XQueue(test_xmsched.Hardware(), **hints)\n"
            "    threading.Thread(target=use, args=(q,), daemon=True).start()\n"
            "q.suspend()\ntime.sleep(0.1)\nprint('end')\n"
        )
        here = pathlib.Path(__file__).resolve().parent
        done = subprocess.run(
            [sys.executable, "-c", text, str(here), str(here.parent)], capture_output=True, text=True, timeout=30
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "end\n", ""))

    def test_no_library(self):
        env = dict(os.environ, XMSCHED_API_LIBRARY="/nowhere/libxmsched_api.so")
        text = "import sys; sys.path.insert(0, sys.argv[1]); import xmsched\ntry: xmsched.policies()\nexcept xmsched.NotSupported as e: print(e)"
        done = subprocess.run(
            [sys.executable, "-c", text, str(pathlib.Path(__file__).resolve().parent.parent)],
            capture_output=True, text=True, env=env, timeout=60,
        )
        self.assertIn("/nowhere/libxmsched_api.so", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
