import Glibc
import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Several users of one host, with and without rights to a store.
@Suite(.enabled(if: isSuperuser, "needs root, to become other users"))
struct SecurityTests {
  @Test(
    .timeLimit(.minutes(60)), arguments: [["status"], ["doctor"], ["doctor", "--repair"]],
    [true, false])
  func `a user without rights is refused in one line`(words: [String], isInside: Bool) async throws
  {
    let directory = try TemporaryDirectory()
    // A user who may not enter the directory gets the same error.
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
      require(answer.errors.contains(": ask its owner, or use another path"), answer)
      // A breaker without its store permits every call.
      let run = cbctl(path, "run", "x", "--", "true")
      require(run.code == 0 && run.errors.contains("permission denied"), run)
    }
    #expect(try Files.read(path) == before)
  }

  @Test(.timeLimit(.minutes(60)))
  func `users of one group share a store`() async throws {
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
    // After root has used the store, its files still belong to the group.
    #expect(cbctl(path, "reset", "x").code == 0)
    #expect(cbctl(path, "doctor", "--repair").code == 0)
    await #expect(processExitsWith: .success) { [path = path as String] in
      try become(user: otherWorker, group: workers)
      let run = cbctl(path, "run", "x", "--", "true")
      require(run.code == 0 && run.errors.isEmpty, run)
    }
  }
}
