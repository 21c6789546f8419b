package doors

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgramWithoutCUDA: no thread, no library, no memory of ours beyond the
// library itself.
func TestProgramWithoutCUDA(t *testing.T) {
	out, stderr := run{}.output(t, "/bin/sh", "-c", "grep Threads /proc/$$/status; grep -c -e libcuda -e libxagent -e memfd /proc/$$/maps; grep -c libxmsched /proc/$$/maps")
	got := strings.Fields(out)
	if len(got) != 4 || got[1] != "1" || got[2] != "0" || got[3] == "0" || stderr != "" {
		t.Errorf("threads, driver mappings, our mappings: %q; stderr %q", got, stderr)
	}
}

// javaProgram loads a library that is linked to the driver and takes faults that
// the virtual machine turns into exceptions, as any Java program does.
const javaProgram = `
public class Host {
    static int length(String s) { return s.length(); }
    public static void main(String[] args) throws Exception {
        System.load(args[0]);
        Thread[] all = new Thread[4];
        int[] caught = new int[all.length];
        for (int i = 0; i < all.length; i++) {
            int me = i;
            all[i] = new Thread(() -> {
                for (int n = 0; n < 20000; n++) {
                    try { length(n < 0 ? "" : null); } catch (NullPointerException e) { caught[me]++; }
                }
            });
            all[i].start();
        }
        int sum = 0;
        for (int i = 0; i < all.length; i++) { all[i].join(); sum += caught[i]; }
        System.gc();
        System.out.println("caught " + sum);
    }
}`

func TestJavaVirtualMachine(t *testing.T) {
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("no java here")
	}
	if out, err := exec.Command(java, "--list-modules").Output(); err != nil || !strings.Contains(string(out), "jdk.compiler@") {
		t.Skip("java has no compiler here")
	}
	source := filepath.Join(t.TempDir(), "Host.java")
	if err := os.WriteFile(source, []byte(javaProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	out, stderr := run{}.output(t, java, "-Xmx128m", source, host("libplugin.so"))
	if out != "caught 80000\n" {
		t.Errorf("stdout %q, stderr %q", out, stderr)
	}
}

// TestPythonFindsHooks: an interpreter opens the driver by itself, locally.
func TestPythonFindsHooks(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 here")
	}
	log, out := agents(t, run{}, python, "-c", `
import ctypes, time
cuda = ctypes.CDLL("libcuda.so.1")
address = lambda f: ctypes.cast(f, ctypes.c_void_p).value
ours = [l.split()[0].split("-") for l in open("/proc/self/maps") if l.rstrip().endswith("libxmsched.so")]
print([any(int(a, 16) <= address(f) < int(b, 16) for a, b in ours) for f in (cuda.cuInit, cuda.cuLaunchKernel, cuda.cuDriverGetVersion)])
print(cuda.cuInit(0), cuda.cuInit(7))
time.sleep(0.3)
`)
	if want := "[True, True, False]\n0 1\n"; out != want || len(log) != 1 {
		t.Errorf("%q, want %q; agents %v", out, want, log)
	}
}
