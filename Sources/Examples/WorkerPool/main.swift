// A pool of worker processes behind one shared breaker.
//
//     swift run worker-pool
//
// The parent starts four workers, which all call a resource that is down. Three failures, in any
// of the workers, open the breaker for all four. From then on only one probe at a time finds out
// whether the resource is back. Then the parent repairs the resource, and the workers continue.
//
// The resource is a stand-in: it is down while a file named `down` exists.

@unsafe @preconcurrency import Glibc
import SharedBreaker

struct ResourceDown: Error {}

func callResource(in directory: String) throws {
  usleep(1_000)
  if unsafe access(directory + "/down", F_OK) == 0 { throw ResourceDown() }
}

/// Returns the breaker that the parent and the workers share.
///
/// To share a breaker, name the same file and the same breaker. Your program would use
/// `SharedStore()`, which is one file for all programs of a user.
func openBreaker(in directory: String) throws -> (SharedStore, Breaker) {
  let store = SharedStore(path: directory + "/breakers.db")
  let policy = BreakerPolicy(maxFailures: 3, openFor: .milliseconds(300))
  return (store, try store.breaker("resource", policy: policy))
}

/// Calls the resource until a call succeeds or the parent has ended.
func work(_ number: String, in directory: String, for parent: pid_t) throws -> Int32 {
  let (store, breaker) = try openBreaker(in: directory)
  // Writes what was counted in the last second.
  defer { store.close() }
  var failed = 0
  var rejected = 0
  while getppid() == parent {
    do {
      try breaker.run { try callResource(in: directory) }
      say("  worker \(number): \(failed) failed, \(rejected) rejected at once, then a success")
      return 0
    } catch is ResourceDown {
      failed += 1
    } catch BreakerError.rejected {
      // A real worker would ask its client to try again later, after `retryAfter`.
      rejected += 1
    }
    usleep(20_000)
  }
  return 1
}

/// Starts this program again as a worker.
///
/// The breaker also works after a `fork()` without `exec`: the child opens its own connection. But
/// Swift does not offer `fork()`, because the child would lack the threads of Swift's runtime.
func startWorker(_ number: Int, in directory: String) -> pid_t? {
  let arguments = ["worker-pool", "\(number)", directory, "\(getpid())"]
  let words = unsafe arguments.map { unsafe strdup($0) }
  defer { unsafe words.forEach { unsafe free($0) } }
  var pid = pid_t()
  let code = unsafe posix_spawn(&pid, "/proc/self/exe", nil, nil, words + [nil], environ)
  return code == 0 ? pid : nil
}

func runPool(in directory: String) throws -> Int32 {
  let (store, breaker) = try openBreaker(in: directory)
  defer { store.close() }
  // Without its store a breaker works in each process alone, which would be pointless here. So the
  // example ends if the store cannot be used.
  try store.connect()

  close(unsafe creat(directory + "/down", 0o600))
  say("Four workers call a resource that is down.")
  let workers = (1...4).compactMap { startWorker($0, in: directory) }
  let limit = ContinuousClock.now + .seconds(60)
  while breaker.snapshot().trips == 0, ContinuousClock.now < limit { usleep(10_000) }
  say("The breaker is open for all of them. Now the resource is repaired.")
  unsafe unlink(directory + "/down")

  var succeeded = 0
  for worker in workers {
    var status: Int32 = 0
    if unsafe waitpid(worker, &status, 0) == worker, status == 0 { succeeded += 1 }
  }
  say("What happened, and who did it:")
  for entry in try store.history(of: breaker.name) {
    guard case .transition = entry.change else { continue }
    say("  \(entry.change): \(entry.reason ?? "") (pid \(entry.pid))")
  }
  let end = breaker.snapshot()
  say("\(end.totals.failures) calls failed and \(end.totals.rejections) were rejected,")
  say("\(succeeded) workers ended well, and the breaker is \(end.state.wireName).")
  return succeeded == 4 && end.state == .closed && end.trips > 0 ? 0 : 1
}

func say(_ line: String) {
  let bytes = Array((line + "\n").utf8)
  _ = unsafe write(1, bytes, bytes.count)
}

let arguments = CommandLine.arguments
if arguments.count == 4, let parent = pid_t(arguments[3]) {
  exit(try work(arguments[1], in: arguments[2], for: parent))
}
var template = Array("/tmp/worker-pool.XXXXXX".utf8CString)
guard unsafe mkdtemp(&template) != nil else {
  unsafe perror("a directory in /tmp cannot be made")
  exit(1)
}
let directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
let code = try runPool(in: directory)
for suffix in ["", "-wal", "-shm", "-counters", "-slots", "-lock"] {
  unsafe unlink(directory + "/breakers.db" + suffix)
}
unsafe rmdir(directory)
exit(code)
