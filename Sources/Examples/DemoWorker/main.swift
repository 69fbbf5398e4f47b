// One worker of the demo. It calls a resource behind a shared breaker again and again, and prints
// what it sees whenever that changes.
//
//     demo-worker STORE RESOURCE NUMBER
//
// The resource is a file. It is up while the file begins with `up`.

import Glibc
import SharedBreaker

let arguments = CommandLine.arguments
guard arguments.count == 4 else {
  say("usage: demo-worker STORE RESOURCE NUMBER")
  exit(64)
}
let resource = arguments[2]
let number = arguments[3]

struct ResourceDown: Error {}

func say(_ line: String) {
  let bytes = Array((line + "\n").utf8)
  _ = unsafe write(1, bytes, bytes.count)
}

func callResource() throws {
  let descriptor = unsafe open(resource, O_RDONLY)
  guard descriptor >= 0 else { throw ResourceDown() }
  defer { close(descriptor) }
  var bytes = [UInt8](repeating: 0, count: 2)
  let count = unsafe read(descriptor, &bytes, bytes.count)
  guard count == 2, bytes == Array("up".utf8) else { throw ResourceDown() }
}

let store = SharedStore(path: arguments[1])
let breaker = try store.breaker(
  "payments", policy: BreakerPolicy(maxFailures: 5, openFor: .seconds(3)))

/// Makes one call, and returns how it went.
func attempt() throws -> String {
  let permit: Permit
  do {
    permit = try breaker.acquire()
  } catch BreakerError.rejected {
    return "rejected at once"
  }
  let call = permit.kind == .probe ? "its PROBE" : "its call"
  do {
    try callResource()
  } catch {
    permit.fail(error: "the resource is down")
    return "\(call) failed"
  }
  permit.succeed()
  return "\(call) succeeded"
}

var lastSaid = ""
while true {
  let seen = try attempt()
  if seen != lastSaid { say("    worker \(number): \(seen)") }
  lastSaid = seen
  usleep(50_000)
}
