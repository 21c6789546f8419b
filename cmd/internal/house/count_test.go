package house

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCount feeds the summary of make test with what it has to tell apart.
func TestCount(t *testing.T) {
	cmd := exec.Command("awk", "-f", "count.awk")
	cmd.Stdin = strings.NewReader(`PASS: door
FAIL: gate
SKIP: ring no room
noise
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"\"Action\":\"fail\"\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":0}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":0.1}
{"Action":"fail","Package":"q","Test":"TestB","Elapsed":0}
{"Action":"skip","Package":"q","Test":"TestC","Elapsed":0}
{"Action":"fail","Package":"q","Elapsed":0.1}
{"Action":"fail","Package":"unbuilt","Elapsed":0,"FailedBuild":"unbuilt"}
{"Action":"skip","Package":"empty","Elapsed":0}
`)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("awk: %v\n%s", err, out)
	}
	if want := "3 passed, 3 failed, 2 skipped\n"; string(out) != want {
		t.Errorf("got %q, want %q", out, want)
	}
}
