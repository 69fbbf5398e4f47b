import BreakerCore
import BreakerStore
import Glibc
import TestSupport
import Testing

@Suite struct OwnerTests {
  @Test func `an owner does not count as gone if no descriptor is left to look it up`() async {
    await #expect(processExitsWith: .success) { try lookWithoutDescriptors() }
  }

  @Test func `an owner does not count as gone if it could not read its start time`() async {
    await #expect(processExitsWith: .success) { try identifyWithoutDescriptors() }
  }

  @Test func `a running process that cannot be examined is found, and is not gone`() async {
    await #expect(processExitsWith: .success) { try findWithoutDescriptors() }
  }

  @Test func `an owner is gone when no process has its pid`() {
    var other = ProcessTable.current()
    other.pid = 0x7FFF_FFFF
    #expect(isGone(other))
    #expect(ProcessTable.process(other.pid) == nil)
    other.startTicks = 0
    #expect(isGone(other))
  }

  @Test func `an owner does not count as gone while a thread outlives its first one`() throws {
    let stage = try Stage()
    let owner = try Puppet(on: stage)
    #expect(try owner.ask("leave-leader") == "ok")
    let identity = try #require(ProcessTable.process(owner.pid))
    // The first thread ends a moment after its successor has answered.
    while !stateIsZombie(owner.pid) { usleep(1_000) }
    #expect(ProcessTable.process(owner.pid) == identity)
    #expect(!isGone(identity))
    #expect(try owner.ask("state") == "closed")
    owner.process.killAndLeaveZombie()
    #expect(isGone(identity))
    #expect(ProcessTable.process(owner.pid) == nil)
  }

  // In a text, the last of these characters merges with the parenthesis that follows the name.
  @Test(arguments: [") Z 1 2\u{600}", ") Z", ") Z 1 1 1 1 1", "\u{D}"])
  func `an owner does not count as gone because of its name`(name: String) throws {
    let stage = try Stage()
    let owner = try Puppet(on: stage)
    let identity = try #require(ProcessTable.process(owner.pid))
    #expect(try owner.ask("rename " + name.utf8.map { String($0) }.joined(separator: " ")) == "ok")
    #expect(ProcessTable.process(owner.pid) == identity)
    #expect(!isGone(identity))
  }

  @Test func `a zombie with threads has not ended, and one without has`() throws {
    let rest = "1 1 1 0 -1 4 2 0 0 0 0 0 0 0 20 0"
    let leaderless = try #require(ProcessStat(Array("7 (a) Z \(rest) 2 0 555 0".utf8)))
    let ended = try #require(ProcessStat(Array("7 (a) b) Z \(rest) 1 0 555 0".utf8)))
    #expect(!leaderless.isZombie)
    #expect(ended.isZombie)
    #expect(ProcessStat(Array("7 (a) Z \(rest)".utf8)) == nil)
  }

  @Test func `a process with numbers in several PID namespaces is seen from a parent of its own`() {
    func count(_ status: String) -> Int? { NamespaceNumbers.count(in: Array(status.utf8)) }
    #expect(count("Name:\tsh\nNSpid:\t17\nNSpgid:\t17\t3\n") == 1)
    #expect(count("Name:\tNSpid: 1 2\nNSpid:\t17\t1\n") == 2)
    #expect(count("Name:\tsh\n") == nil)
  }
}

private func isGone(_ process: ProcessIdentity) -> Bool {
  ProcessTable.fate(of: process) == .over
}

private func stateIsZombie(_ pid: Int32) -> Bool {
  ProcessStat(at: "/proc/\(pid)/stat")?.state == UInt8(ascii: "Z")
}

private func lookWithoutDescriptors() throws {
  let own = ProcessTable.current()
  precondition(!isGone(own))
  var limit = rlimit(rlim_cur: 0, rlim_max: 0)
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  precondition(!isGone(own))
}

private func identifyWithoutDescriptors() throws {
  var limit = rlimit()
  unsafe getrlimit(__rlimit_resource_t(7), &limit)
  let usual = limit.rlim_cur
  limit.rlim_cur = 0
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  let own = ProcessTable.current()
  limit.rlim_cur = usual
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  precondition(own.pid == getpid())
  precondition(!isGone(own))
}

private func findWithoutDescriptors() throws {
  var limit = rlimit()
  unsafe getrlimit(__rlimit_resource_t(7), &limit)
  limit.rlim_cur = 0
  unsafe setrlimit(__rlimit_resource_t(7), &limit)
  guard let parent = ProcessTable.process(getppid()) else { preconditionFailure("not found") }
  precondition(!isGone(parent))
  precondition(ProcessTable.process(0x7FFF_FFFF) == nil)
}
