// A prefork server's bones: a parent that forks its workers, and forks another one for each that dies.
//
//     swift run prefork
//
// The parent declares the breaker, and forks four workers that all use it. The resource is down, so
// three failures in any of them open it. Then a worker probes and is killed in the middle of it. Its
// slot is free at once, the parent replaces the worker, and another one finds out that the resource is
// back.
//
// The resource is a stand-in: it is down while a file named `down` exists.

import CPrefork
@unsafe @preconcurrency import Glibc
import SharedBreaker

struct ResourceDown: Error {}

/// Made by the parent before it forks, and used by every worker.
enum Shop {
  /// Your program would use `SharedStore()`, which is one file for all programs of a user.
  static let store = SharedStore(path: directory + "/breakers.db")

  static let payments = Result {
    try store.breaker(
      "payments", policy: BreakerPolicy(maxFailures: 3, openFor: .milliseconds(300)))
  }

  static let directory: String = {
    var template = Array("/tmp/prefork.XXXXXX".utf8CString)
    guard unsafe mkdtemp(&template) != nil else { return "" }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }()
}

func callResource() throws {
  usleep(1_000)
  if unsafe access(Shop.directory + "/down", F_OK) == 0 { throw ResourceDown() }
}

/// The work of a child: calls the resource until a call succeeds.
///
/// No task of Swift runs here: the child has none of the threads that the parent's tasks would use.
func work(_ number: Int32) -> Int32 {
  // Writes what was counted in the last second. Whatever else the parent has open stays the parent's.
  defer { Shop.store.close() }
  do {
    let payments = try Shop.payments.get()
    while true {
      do {
        try attempt(payments)
        return 0
      } catch is ResourceDown {
        // A real worker would answer that the call failed.
      } catch BreakerError.rejected {
        // A real worker would ask its client to try again later, after `retryAfter`.
      }
      usleep(20_000)
    }
  } catch {
    say("  worker \(number): \(error)")
    return 1
  }
}

/// Makes one call; the first one that is a probe never returns from it.
func attempt(_ payments: Breaker) throws {
  let permit = try payments.acquire()
  if permit.kind == .probe, unsafe unlink(Shop.directory + "/doom") == 0 { raise(SIGKILL) }
  do {
    try callResource()
    permit.succeed()
  } catch {
    permit.fail(error: "\(error)")
    throw error
  }
}

/// Forks workers, and another one for each that dies; returns how many have ended well.
func serve(workers: Int32) -> Int {
  var running: [pid_t: Int32] = [:]
  func start(_ number: Int32) {
    let pid = prefork_start(work, number)
    if pid > 0 { running[pid] = number } else { unsafe perror("no worker can be started") }
  }
  for number in 1...workers { start(number) }
  var ended = 0
  while !running.isEmpty {
    var status: Int32 = 0
    let pid = unsafe waitpid(-1, &status, 0)
    guard let number = running.removeValue(forKey: pid) else {
      if pid < 0, errno != EINTR { break }
      continue
    }
    let signal = status & 0x7F
    if signal == 0 {
      if status == 0 { ended += 1 }
      continue
    }
    say("Worker \(number) was killed by signal \(signal). Another one takes its place,")
    say("and the resource is repaired.")
    unsafe unlink(Shop.directory + "/down")
    start(number)
  }
  return ended
}

func say(_ line: String) {
  let bytes = Array((line + "\n").utf8)
  _ = unsafe write(1, bytes, bytes.count)
}

func runServer() throws -> Int32 {
  // Fork first: nothing in this process has made a call, a task or a thread yet.
  let payments = try Shop.payments.get()
  for file in ["down", "doom"] { close(unsafe creat(Shop.directory + "/" + file, 0o600)) }
  say("Four workers call a resource that is down.")
  let ended = serve(workers: 4)
  say("What happened, and who did it:")
  for entry in try Shop.store.history(of: payments.name) {
    switch entry.change {
    case .transition, .probe: say("  \(entry.change): \(entry.reason ?? "") (pid \(entry.pid))")
    default: break
    }
  }
  let state = payments.state
  say("\(ended) workers ended well, and the breaker is \(state.wireName).")
  Shop.store.close()
  return ended == 4 && state == .closed ? 0 : 1
}

guard !Shop.directory.isEmpty else {
  unsafe perror("a directory in /tmp cannot be made")
  exit(1)
}
let code = try runServer()
for suffix in ["", "-wal", "-shm", "-counters", "-slots", "-lock"] {
  unsafe unlink(Shop.directory + "/breakers.db" + suffix)
}
unsafe rmdir(Shop.directory)
exit(code)
