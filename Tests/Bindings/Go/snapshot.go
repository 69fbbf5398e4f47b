package sharedbreaker

/*
#include <sharedbreaker.h>
#include <stdint.h>
*/
import "C"

import (
	"testing"
	"unsafe"
)

// snapshot is in a file of its own because the tests of a package cannot use cgo.
func snapshot(t testing.TB, breaker *Breaker) string {
	t.Helper()
	var text *C.char
	if code := C.sb_breaker_snapshot(breaker.handle, &text, nil); code != C.SB_OK {
		t.Fatal("no snapshot: ", code)
	}
	defer C.sb_free(unsafe.Pointer(text))
	return C.GoString(text)
}
