import Glibc
import TestSupport

/// The processes of a phase, and how those that are gone have ended.
final class Cast {
  /// A process, and the path of its journal.
  private struct Member {
    var child: Child
    var journal: String
    var isWorker: Bool
  }

  /// A process that has ended.
  struct Gone {
    var pid: Int32
    var journal: String
    var killed: Int64?
  }

  private let role: (_ isWorker: Bool, _ number: Int) -> [String]
  private let directory: String
  private var workers: [Member] = []
  private var commanders: [Member] = []
  private(set) var gone: [Gone] = []
  private(set) var violations: [Violation] = []
  private var started = 0
  private var stopped: Set<Int32> = []

  private(set) var kills = 0
  private(set) var stops = 0
  var processes: Int { started }

  /// How long a process may take to end.
  private static let patienceMilliseconds: Int32 = 30_000

  init(in directory: String, role: @escaping (_ isWorker: Bool, _ number: Int) -> [String]) {
    self.directory = directory
    self.role = role
  }

  func start(workers count: Int, commanders: Int) throws {
    for number in 0..<count { workers.append(try start(isWorker: true, number)) }
    for number in 0..<commanders {
      self.commanders.append(try start(isWorker: false, number))
    }
  }

  private func start(isWorker: Bool, _ number: Int) throws -> Member {
    started += 1
    let journal = "\(directory)/journal-\(started)"
    let arguments = role(isWorker, number) + ["journal=\(journal)", "life=\(started)"]
    let child = try Child(
      BuiltProducts.path(of: "torture"), arguments,
      patienceMilliseconds: Self.patienceMilliseconds)
    return Member(child: child, journal: journal, isWorker: isWorker)
  }

  /// Kills a worker and starts another in its place.
  func kill(_ number: Int) throws {
    kills += 1
    let now = Scribe.now()
    let member = workers[number]
    member.child.kill()
    leave(member, killed: now, expected: -SIGKILL)
    workers[number] = try start(isWorker: true, number)
  }

  /// Stops a worker where it is, and returns a function that continues it; nil if it is stopped
  /// already.
  func stop(_ number: Int) -> (() -> Void)? {
    let child = workers[number].child
    guard stopped.insert(child.pid).inserted else { return nil }
    stops += 1
    child.stop()
    return { [weak self, weak child] in
      guard let child else { return }
      child.resume()
      self?.stopped.remove(child.pid)
    }
  }

  var workerCount: Int { workers.count }

  /// Waits for the commanders, which end when the resources heal.
  func dismissCommanders() {
    commanders.forEach(dismiss)
    commanders = []
  }

  /// Waits for the workers, which end when the phase is over.
  func dismissWorkers() {
    workers.forEach(dismiss)
    workers = []
  }

  private func dismiss(_ member: Member) {
    do {
      _ = try member.child.rest()
    } catch {
      violations.append(Violation(.stuck, "process \(member.child.pid) does not end: \(error)"))
      member.child.kill()
    }
    leave(member, killed: nil, expected: 0)
  }

  private func leave(_ member: Member, killed: Int64?, expected: Int32) {
    let status = member.child.waitForEnd()
    gone.append(Gone(pid: member.child.pid, journal: member.journal, killed: killed))
    guard status != expected else { return }
    let how = status < 0 ? "died of signal \(-status)" : "ended with \(status)"
    violations.append(Violation(.death, "process \(member.child.pid) \(how)"))
  }

  /// Reads the journals of all processes.
  func journals() throws -> [Journal] {
    // A process that was killed early has no journal.
    var journals = try gone.map {
      let lines = Files.exists($0.journal) ? try Files.read($0.journal) : []
      return try Journal(pid: $0.pid, killed: $0.killed, lines: lines)
    }
    for name in Files.names(in: directory) {
      // The names of the journals of forked children end with their process number.
      let parts = name.split(separator: ".")
      guard parts.count == 2, parts[0].hasPrefix("journal-"), let pid = Int32(parts[1]) else {
        continue
      }
      journals.append(try Journal(pid: pid, lines: try Files.read("\(directory)/\(name)")))
    }
    return journals
  }
}
