package bounds

import (
	"math"
	"strings"
	"testing"
	"time"

	"xmsched/bench/rows"
)

func row(mode string, params rows.Params, metrics rows.Metrics) rows.Row {
	return rows.Row{
		Schema: rows.Schema, Row: "launch", Mode: mode, Device: "Test GPU", UUID: "GPU-0", Driver: "x",
		Commit: "c", Time: rows.Time{Time: time.Unix(1_800_000_000, 0)}, N: 5, Params: params, Metrics: metrics,
	}
}

func bound(t *testing.T, s string) Bound {
	t.Helper()
	set, err := Parse([]byte(`{"issue":"0","bounds":[` + s + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return set.Bounds[0]
}

const launchBound = `{"row":"launch","mode":"free","params":{"threads":1},"metric":"overhead_ns","op":"<=","limit":60,
	"or":[{"metric":"overhead_pct","op":"<=","limit":1}],"source":"test"}`

func TestCheck(t *testing.T) {
	one := rows.Params{"threads": 1, "kernel_us": 0}
	good := row("free", one, rows.Metrics{"overhead_ns": 60, "overhead_pct": 1.4})
	better := row("free", one, rows.Metrics{"overhead_ns": 10, "overhead_pct": 0.2})
	byOr := row("free", one, rows.Metrics{"overhead_ns": 90, "overhead_pct": 0.9})
	bad := row("free", one, rows.Metrics{"overhead_ns": 61, "overhead_pct": 1.1})
	earlier, earlierGood, before := bad, better, bad
	earlier.Commit, earlierGood.Commit = "b", "b"
	for _, r := range []*rows.Row{&earlier, &earlierGood, &before} {
		r.Time.Time = r.Time.Add(-time.Hour)
	}
	simulated := good
	simulated.Commit, simulated.Time.Time = "d", simulated.Time.Add(time.Hour)
	simulated.Simulated = true
	simulatedBad := bad
	simulatedBad.Simulated = true
	cases := []struct {
		name      string
		measured  []rows.Row
		want      Result
		value     float64
		fitting   int
		simulated int
		earlier   int
	}{
		{name: "nothing", want: NotMeasured},
		{name: "at the limit", measured: []rows.Row{good}, want: Reached, value: 60, fitting: 1},
		{name: "the worst of the kept is shown", measured: []rows.Row{better, good, better}, want: Reached, value: 60, fitting: 2},
		{name: "the other condition is enough", measured: []rows.Row{byOr}, want: Reached, value: 90, fitting: 1},
		{name: "one bad row is enough", measured: []rows.Row{good, bad, better}, want: Missed, value: 61, fitting: 3},
		{name: "a missed row is worse than a larger kept one", measured: []rows.Row{bad, byOr}, want: Missed, value: 61, fitting: 2},
		{name: "what an earlier commit measured counts no more", measured: []rows.Row{good, earlier}, want: Reached, value: 60, fitting: 1, earlier: 1},
		{name: "nor does a better one of that", measured: []rows.Row{earlierGood, bad, earlierGood}, want: Missed, value: 61, fitting: 1, earlier: 1},
		{name: "of one commit all count, whenever measured", measured: []rows.Row{good, before}, want: Missed, value: 61, fitting: 2},
		{name: "the same row twice counts once", measured: []rows.Row{good, good}, want: Reached, value: 60, fitting: 1},
		{name: "simulated rows never satisfy", measured: []rows.Row{simulated}, want: NotMeasured, simulated: 1},
		{name: "simulated rows never break", measured: []rows.Row{good, simulatedBad}, want: Reached, value: 60, fitting: 1, simulated: 1},
		{name: "another mode", measured: []rows.Row{row("bounded", one, good.Metrics)}, want: NotMeasured},
		{name: "another param", measured: []rows.Row{row("free", rows.Params{"threads": 2}, good.Metrics)}, want: NotMeasured},
		{name: "param absent", measured: []rows.Row{row("free", nil, good.Metrics)}, want: NotMeasured},
		{name: "param of another kind", measured: []rows.Row{row("free", rows.Params{"threads": "1"}, good.Metrics)}, want: NotMeasured},
		{name: "metric absent", measured: []rows.Row{row("free", one, rows.Metrics{"overhead_pct": 0})}, want: NotMeasured},
	}
	b := bound(t, launchBound)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			vs, err := Check([]Bound{b}, c.measured)
			if err != nil {
				t.Fatal(err)
			}
			v := vs[0]
			value, _ := v.Value()
			if v.Result != c.want || value != c.value || v.Fitting != c.fitting || v.Simulated != c.simulated || v.Earlier != c.earlier {
				t.Errorf("%s, value %v, %d fitting, %d simulated, %d earlier; want %s, %v, %d, %d, %d",
					v.Result, value, v.Fitting, v.Simulated, v.Earlier, c.want, c.value, c.fitting, c.simulated, c.earlier)
			}
		})
	}
}

func TestCheckRefusesNaN(t *testing.T) {
	bad := row("free", rows.Params{"threads": 1}, rows.Metrics{"overhead_ns": math.NaN()})
	if _, err := Check([]Bound{bound(t, launchBound)}, []rows.Row{bad}); err == nil {
		t.Error("NaN was judged")
	}
}

func TestOps(t *testing.T) {
	cases := []struct {
		op                Op
		below, at, beyond bool // for 0.9, 1 and 1.1 against 1
	}{
		{AtMost, true, true, false},
		{Below, true, false, false},
		{AtLeast, false, true, true},
		{Equal, false, true, false},
	}
	for _, c := range cases {
		for v, want := range map[float64]bool{0.9: c.below, 1: c.at, 1.1: c.beyond} {
			if got := c.op.holds(v, 1); got != want {
				t.Errorf("%v %s 1 is %v", v, c.op, got)
			}
		}
		if c.op.holds(math.NaN(), 1) {
			t.Errorf("NaN %s 1 holds", c.op)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	cases := map[string]string{
		"at least one bound": `{"issue":"1","bounds":[]}`,
		"decode bounds":      `{"issue":`,
		"something follows":  `{"issue":"1","bounds":[` + launchBound + `]} {}`,
		"unknown field":      `{"issue":"1","bounds":[{"row":"a","limits":3}]}`,
		"is there twice":     `{"issue":"1","bounds":[` + launchBound + `,` + launchBound + `]}`,
		"has no limit":       `{"issue":"1","bounds":[{"row":"a","mode":"b","metric":"c_us","op":"<=","source":"s"}]}`,
		"none of":            `{"issue":"1","bounds":[{"row":"a","mode":"b","metric":"c_us","op":"~","limit":1,"source":"s"}]}`,
		"must not be empty":  `{"issue":"1","bounds":[{"row":"a","mode":"b","metric":"c_us","op":"<=","limit":1}]}`,
		"no metric":          `{"issue":"1","bounds":[{"row":"a","mode":"b","op":"<=","limit":1,"source":"s"}]}`,
		"param p is neither": `{"issue":"1","bounds":[{"row":"a","mode":"b","params":{"p":[1]},"metric":"c_us","op":"<=","limit":1,"source":"s"}]}`,
	}
	for want, text := range cases {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want it to say %q", text, err, want)
		}
	}
}

// The built-in files are valid, and their metrics could occur in a row.
func TestEmbedded(t *testing.T) {
	sets, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	if len(sets) == 0 {
		t.Fatal("no bounds are built in")
	}
	for _, set := range sets {
		for _, b := range set.Bounds {
			r := row(b.Mode, rows.Params(b.Params), rows.Metrics{b.Metric: *b.Limit})
			r.Row = b.Row
			for _, c := range b.Or {
				r.Metrics[c.Metric] = *c.Limit
			}
			if err := r.Validate(); err != nil {
				t.Errorf("issue %s, %s: %v", set.Issue, b, err)
			}
		}
	}
}
