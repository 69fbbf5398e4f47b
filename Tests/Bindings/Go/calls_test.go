// Tests the package of the Go guide: how each way to leave the work counts, that the words of an error are
// those of the call that failed, and calls from many goroutines.
package sharedbreaker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

type totals struct {
	Successes, Failures, Ignored, Rejections int
}

func counted(t testing.TB, breaker *Breaker) (document struct {
	Totals    totals `json:"totals"`
	State     string `json:"state"`
	LastError string `json:"last_error"`
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(snapshot(t, breaker)), &document); err != nil {
		t.Fatal(err)
	}
	return document
}

func open(t testing.TB, policy string) *Breaker {
	t.Helper()
	path := filepath.Join(os.Getenv("GO_TEST_ROOM"), t.Name(), "breakers.db")
	breaker, err := GetIn(path, "api", policy)
	if err != nil {
		t.Fatal(err)
	}
	return breaker
}

func TestEachEndOfTheWorkCountsAsTheGuideSays(t *testing.T) {
	breaker := open(t, "max-failures=99")
	refused := errors.New("refused")
	if value, err := Call(breaker, func() (int, error) { return 42, nil }); value != 42 || err != nil {
		t.Fatal(value, err)
	}
	if err := breaker.Do(func() error { return refused }); err != refused {
		t.Fatal(err)
	}
	if last := counted(t, breaker).LastError; last != "refused" {
		t.Fatal(last)
	}
	late, end := context.WithTimeout(context.Background(), 1)
	defer end()
	<-late.Done()
	if err := breaker.Do(late.Err); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	gone := fmt.Errorf("the caller left: %w", context.Canceled)
	if err := breaker.Do(func() error { return gone }); err != gone {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if cause := recover(); cause != "broken" {
				t.Fatal(cause)
			}
		}()
		_ = breaker.Do(func() error { panic("broken") })
	}()
	if last := counted(t, breaker).LastError; last != "panic: broken" {
		t.Fatal(last)
	}
	done := make(chan bool)
	go func() {
		defer close(done)
		_ = breaker.Do(func() error { runtime.Goexit(); return nil })
	}()
	<-done
	if found := counted(t, breaker).Totals; found != (totals{1, 3, 2, 0}) {
		t.Fatal(found)
	}
}

type wordless struct{ words string }

func (w *wordless) Error() string { return w.words }

func TestNoReportIsLostOverItsTimeOrItsWords(t *testing.T) {
	breaker := open(t, "max-failures=1 max-concurrent=1")
	for _, hold := range []time.Duration{-time.Second, time.Duration(math.MaxInt64)} {
		var held *Hold
		err := breaker.Do(func() error { return &Hold{For: hold, Err: errors.New("")} })
		if !errors.As(err, &held) {
			t.Fatal(hold, err)
		}
		if err := breaker.EndHold(""); err != nil {
			t.Fatal(err)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Fatal("the error had words")
			}
		}()
		_ = breaker.Do(func() error {
			var none *wordless
			return none
		})
	}()
	if document := counted(t, breaker); document.Totals.Failures != 1 || document.State != "open" {
		t.Fatal(document)
	}
	if _, err := Get("a\x00b", ""); err == nil {
		t.Fatal("a name with a zero byte was taken")
	}
}

func TestAnOpenBreakerRunsNothing(t *testing.T) {
	breaker := open(t, "max-failures=1 open-for=90s")
	_ = breaker.Do(func() error { return errors.New("down") })
	err := breaker.Do(func() error { t.Fatal("run"); return nil })
	var rejected *Rejected
	if !errors.As(err, &rejected) || rejected.RetryAfter <= 0 || rejected.RetryAfter.Seconds() > 90 {
		t.Fatal(err)
	}
	if !strings.HasPrefix(err.Error(), "api is rejecting calls: try again in ") {
		t.Fatal(err)
	}
	if state := counted(t, breaker).State; state != "open" {
		t.Fatal(state)
	}
}

func TestErrorsHaveTheWordsOfTheirCall(t *testing.T) {
	var group sync.WaitGroup
	for i := 0; i < 64; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			word := fmt.Sprintf("strange%d", i)
			_, err := GetIn(filepath.Join(t.TempDir(), "breakers.db"), "api", word+"=1")
			if err == nil || !strings.Contains(err.Error(), word) {
				t.Error(word, err)
			}
		}(i)
	}
	group.Wait()
	if _, err := Get("", ""); err == nil || !strings.Contains(err.Error(), "name") {
		t.Fatal(err)
	}
}

func TestManyGoroutinesShareABreaker(t *testing.T) {
	breaker := open(t, "max-failures=1000000")
	var failed atomic.Int64
	var group sync.WaitGroup
	for i := 0; i < 200; i++ {
		group.Add(1)
		go func(i int) {
			defer group.Done()
			for j := 0; j < 20; j++ {
				err := breaker.Do(func() error {
					runtime.Gosched()
					if (i+j)%10 == 0 {
						return errors.New("refused")
					}
					return nil
				})
				if err != nil {
					failed.Add(1)
				}
			}
		}(i)
	}
	group.Wait()
	if found := counted(t, breaker).Totals; found != (totals{3600, 400, 0, 0}) || failed.Load() != 400 {
		t.Fatal(found, failed.Load())
	}
}

func BenchmarkHealthyCall(b *testing.B) {
	breaker := open(b, "max-failures=99")
	work := func() error { return nil }
	for i := 0; i < b.N; i++ {
		if err := breaker.Do(work); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRejectedCall(b *testing.B) {
	breaker := open(b, "max-failures=1 open-for=1h")
	work := func() error { return errors.New("down") }
	for i := 0; i < b.N; i++ {
		if err := breaker.Do(work); err == nil {
			b.Fatal("permitted")
		}
	}
}
