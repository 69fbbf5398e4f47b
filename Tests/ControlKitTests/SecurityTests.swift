import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Users of no name, as root sees them.
private let stranger: UInt32 = 65_534
private let worker: UInt32 = 54_321
private let otherWorker: UInt32 = 54_322
private let workers: UInt32 = 54_320

/// Runs one command line on a store, in whatever process this is.
private func cbctl(_ path: String, _ words: String...) -> Answer {
  let recorder = Recorder()
  let ending = ControlKit.run(
    arguments: ["--store", path] + words, console: recorder.console())
  return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
}

/// Ends the process, and says why, unless something is as it should be.
private func require(_ isRight: Bool, _ answer: Answer, line: Int = #line) {
  precondition(isRight, "line \(line): \(answer)")
}

@Suite(.enabled(if: isSuperuser, "needs root, to become other users"))
struct `Users of one host` {
  @Test(
    .timeLimit(.minutes(10)), arguments: [["status"], ["doctor"], ["doctor", "--repair"]],
    [true, false])
  func `without rights are refused in one line`(words: [String], isInside: Bool) async throws {
    let directory = try TemporaryDirectory()
    // Who may not enter the directory is told the same.
    let path = isInside ? directory.store : directory.file("breakers.db")
    #expect(cbctl(path, "policy", "x", "--set", "probes=2").code == 0)
    let before = try Files.read(path)
    await #expect(processExitsWith: .success) {
      [path = path as String, words = words as [String]] in
      try become(user: stranger, group: stranger)
      let recorder = Recorder()
      let code = ControlKit.run(
        arguments: ["--store", path] + words, console: recorder.console()
      ).code
      let answer = Answer(code: code, output: recorder.output, errors: recorder.errors)
      require(answer.code == 69 && answer.output.isEmpty, answer)
      require(answer.errors.contains("permission denied"), answer)
      require(answer.errors.split(separator: "\n").count == 1, answer)
      require(answer.errors.contains(": ask its owner, or name another path"), answer)
      // The breaker is never the outage.
      let run = cbctl(path, "run", "x", "--", "true")
      require(run.code == 0 && run.errors.contains("permission denied"), run)
    }
    #expect(try Files.read(path) == before)
  }

  @Test(.timeLimit(.minutes(10)))
  func `share a store of their group`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.file("shared")
    try Files.makeDirectory(folder)
    unsafe chown(folder, worker, workers)
    try Files.changeMode(folder, to: 0o2770)
    let path = folder + "/breakers.db"
    await #expect(processExitsWith: .success) { [path = path as String] in
      umask(0o077)
      try become(user: worker, group: workers)
      let made = cbctl(path, "init", "--mode", "660")
      require(made.code == 0 && made.errors.isEmpty, made)
      let policy = cbctl(path, "run", "x", "--max-failures", "2", "--", "false")
      require(policy.code == 1, policy)
    }
    await #expect(processExitsWith: .success) { [path = path as String] in
      umask(0o077)
      try become(user: otherWorker, group: workers)
      let second = cbctl(path, "run", "x", "--max-failures", "2", "--", "false")
      require(second.code == 1 && second.errors.isEmpty, second)
      let rejected = cbctl(path, "run", "x", "--max-failures", "2", "--", "true")
      require(rejected.code == 75, rejected)
      let doctor = cbctl(path, "doctor")
      require(doctor.code == 0, doctor)
    }
    for suffix in ["", "-wal", "-shm", "-counters", "-lock"] {
      let access = try Files.permissions(of: path + suffix)
      #expect(access.mode == 0o660 && access.group == workers, "\(suffix)")
    }
    // Root looks, and everything is still theirs.
    #expect(cbctl(path, "reset", "x").code == 0)
    #expect(cbctl(path, "doctor", "--repair").code == 0)
    await #expect(processExitsWith: .success) { [path = path as String] in
      try become(user: otherWorker, group: workers)
      let run = cbctl(path, "run", "x", "--", "true")
      require(run.code == 0 && run.errors.isEmpty, run)
    }
  }
}

@Suite(.enabled(if: isSuperuser, "needs root, to become other users"))
struct `A directory where everybody may make files` {
  enum Plant: String, CaseIterable, Codable {
    case link, fifo, file, directory
  }

  private static func plant(_ plant: Plant, at path: String, target: String) {
    switch plant {
    case .link: unsafe symlink(target, path)
    case .fifo: unsafe mkfifo(path, 0o666)
    case .file:
      close(unsafe open(path, O_CREAT | O_WRONLY, 0o666))
      unsafe chmod(path, 0o666)
    case .directory: unsafe mkdir(path, 0o777)
    }
  }

  /// The folder, with what somebody has put there for others to find.
  private func prepare(
    _ directory: TemporaryDirectory, _ plant: Plant, _ suffix: String
  ) async throws -> (store: String, target: String) {
    let target = directory.file("target")
    try Files.write(target, Array("precious".utf8))
    let folder = directory.file("open")
    try Files.makeDirectory(folder)
    let store = folder + "/breakers.db"
    if !suffix.isEmpty { try Files.write(store, []) }
    try Files.changeMode(folder, to: 0o1777)
    let path = store + suffix
    await #expect(processExitsWith: .success) {
      [plant = plant as Plant, path = path as String, target = target as String] in
      try become(user: stranger, group: stranger)
      Self.plant(plant, at: path, target: target)
    }
    #expect(Files.exists(path))
    return (store, target)
  }

  @Test(.timeLimit(.minutes(10)), arguments: Plant.allCases, ["", "-wal", "-shm"])
  func `makes nobody use what another has put there`(plant: Plant, suffix: String) async throws {
    let directory = try TemporaryDirectory()
    let (store, target) = try await prepare(directory, plant, suffix)
    let before = try Files.permissions(of: store + suffix)
    for words in ["trip", "status", "acquire"] {
      let answer =
        words == "status" ? cbctl(store, "status") : cbctl(store, "acquire", "x")
      #expect(answer.code == 69, "\(answer)")
      #expect(answer.errors.hasPrefix("cbctl: cannot use "), "\(answer.errors)")
      #expect(answer.errors.split(separator: "\n").count == 1)
    }
    #expect(cbctl(store, "run", "x", "--", "true").code == 0)
    #expect(try Files.permissions(of: store + suffix) == before)
    #expect(try Files.read(target) == Array("precious".utf8))
  }

  @Test(.timeLimit(.minutes(10)), arguments: [Plant.link, .fifo, .file], ["-wal", "-shm"])
  func `is cleared by the doctor, who adopts nothing`(plant: Plant, suffix: String) async throws {
    let directory = try TemporaryDirectory()
    let (store, target) = try await prepare(directory, plant, suffix)
    try Files.changeMode(store, to: 0o600)
    let repaired = cbctl(store, "doctor", "--repair")
    #expect(repaired.output.contains("; repair: done: set \(suffix) aside"), "\(repaired)")
    #expect(cbctl(store, "run", "x", "--", "false").errors.isEmpty)
    #expect(try Files.permissions(of: store + suffix).user == 0)
    #expect(try Files.read(target) == Array("precious".utf8))
  }

  @Test(.timeLimit(.minutes(10)), arguments: Plant.allCases)
  func `makes nobody lock what another has put there`(plant: Plant) async throws {
    let directory = try TemporaryDirectory()
    let (store, target) = try await prepare(directory, plant, "-lock")
    let answer = cbctl(store, "acquire", "x")
    #expect(answer.code == 69 && answer.errors.hasPrefix("cbctl: cannot use "), "\(answer)")
    #expect(answer.errors.contains(store + "-lock"), "\(answer)")
    #expect(cbctl(store, "run", "x", "--", "true").code == 0)
    #expect(cbctl(store, "doctor").output.contains("BAD   files"))
    let repaired = cbctl(store, "doctor", "--repair").output
    #expect(repaired.contains("set -lock aside (breakers.db-lock.corrupt-"), "\(repaired)")
    #expect(cbctl(store, "acquire", "x").code == 0)
    let lock = try Files.permissions(of: store + "-lock")
    #expect(lock.user == 0 && lock.isRegular)
    #expect(try Files.read(target) == Array("precious".utf8))
  }

  @Test func `has the doctor refuse a store of another's`() async throws {
    let directory = try TemporaryDirectory()
    let (store, _) = try await prepare(directory, .file, "")
    let answer = cbctl(store, "doctor", "--repair")
    #expect(answer.code == 69 && answer.errors.contains("it belongs to user 65534"), "\(answer)")
  }

  @Test(.timeLimit(.minutes(10)), arguments: Plant.allCases)
  func `makes nobody count where another has put the counters`(plant: Plant) async throws {
    let directory = try TemporaryDirectory()
    let (store, target) = try await prepare(directory, plant, "-counters")
    #expect(cbctl(store, "run", "x", "--", "true").code == 0)
    #expect(cbctl(store, "run", "x", "--", "false").code == 1)
    #expect(cbctl(store, "show", "x", "--json").output.contains(#""successes":1,"failures":1"#))
    #expect(try Files.read(target) == Array("precious".utf8))
    // Root takes its place with a file of its own, unless it is a directory.
    let counters = try Files.permissions(of: store + "-counters")
    #expect(counters.user == 0 ? counters.mode == 0o644 : plant == .directory)
  }

  @Test func `leaves the store of its own user alone`() async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.file("open")
    try Files.makeDirectory(folder)
    try Files.changeMode(folder, to: 0o1777)
    await #expect(processExitsWith: .success) { [folder = folder as String] in
      try become(user: worker, group: worker)
      for _ in 0..<2 {
        let run = cbctl(folder + "/breakers.db", "run", "x", "--", "true")
        require(run.code == 0 && run.errors.isEmpty, run)
      }
      let doctor = cbctl(folder + "/breakers.db", "doctor")
      require(doctor.code == 1 && doctor.output.contains("warn  directory"), doctor)
    }
    // Root least of all uses what somebody has put there.
    #expect(cbctl(folder + "/breakers.db", "status").code == 69)
  }
}
