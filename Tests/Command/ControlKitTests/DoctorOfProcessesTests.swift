import SharedBreaker
import TestSupport
import Testing

@testable import ControlKit

/// Runs of `doctor` while programs use the store.
@Suite struct DoctorOfProcessesTests {
  private func doctor(_ stage: Stage, _ options: String...) -> Answer {
    let recorder = Recorder()
    let ending = ControlKit.run(
      arguments: ["--store", stage.store, "doctor"] + options, console: recorder.console(),
      options: StoreOptions(clock: stage.clock.clock))
    return Answer(code: ending.code, output: recorder.output, errors: recorder.errors)
  }

  private func line(_ check: String, _ answer: Answer) -> Substring {
    answer.output.split(separator: "\n").first { $0.contains("  \(check) ") } ?? "\(answer)"
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor names the processes that have the store open`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=3")
    try puppets.ask("run fail")
    let answer = doctor(stage)
    #expect(answer.code == 0, "\(answer)")
    for puppet in puppets {
      #expect(line("processes", answer).contains("process \(puppet.pid) (puppet)"))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor names a process that is stopped while it writes`() throws {
    let stage = try Stage()
    let writer = try stage.puppets(1, "max-failures=3", options: ["watch"])[0]
    try writer.ask("stop-at 3")
    #expect(try writer.ask("run fail").hasPrefix("at 3"))
    writer.process.stop()
    let answer = doctor(stage)
    #expect(answer.code == 1)
    #expect(
      line("processes", answer).hasPrefix(
        "BAD   processes   process \(writer.pid) (puppet) is stopped while it writes"))
    writer.process.resume()
    #expect(try writer.ask("go") == "failed")
    #expect(doctor(stage).code == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `running programs move to the store that a repair creates`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-failures=4 open-for=30s")
    try puppets.ask("run fail")
    let root = try Database.value(
      stage.store, "SELECT rootpage FROM sqlite_schema WHERE name = 'event'")
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    var bytes = try Files.read(stage.store)
    let start = (try #require(Int(root)) - 1) * 1_024
    for index in start..<start + 1_024 { bytes[index] = 0x5A }
    try Files.overwrite(stage.store, bytes)
    let answer = doctor(stage, "--repair")
    #expect(line("integrity", answer).contains("done: "), "\(answer)")
    // The programs have not used the store since, so they still have the old one open.
    #expect(line("processes", answer).hasPrefix("note"), "\(answer)")
    stage.clock.advance(by: .seconds(2))
    #expect(try puppets.ask("run ok") == ["ok 42", "ok 42", "ok 42"])
    #expect(try puppets.ask("health") == ["connected", "connected", "connected"])
    #expect(try puppets[0].ask("failures 2") == "failed 2 rejected 0")
    #expect(try puppets[1].ask("failures 3") == "failed 2 rejected 1")
    #expect(try puppets.ask("state") == ["open", "open", "open"])
    let after = doctor(stage)
    #expect(after.code == 0, "\(after)")
    #expect(line("processes", after).contains("process \(puppets[0].pid)"))
  }

  @Test(.timeLimit(.minutes(60)))
  func `several repairs at once set the damaged store aside once`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=900 open-for=30s")
    try puppets.ask("run fail")
    try Database.rows(stage.store, "PRAGMA wal_checkpoint(TRUNCATE)")
    var bytes = try Files.read(stage.store)
    for index in 3_072..<6_144 { bytes[index] = 0x5A }
    try Files.overwrite(stage.store, bytes)
    try puppets.forEach { try $0.send("failures 200") }
    let path = stage.store
    Threads.run(4) { _ in
      let ending = ControlKit.run(
        arguments: ["--store", path, "doctor", "--repair"], console: Recorder().console())
      if ending.code > 1 { Issue.record("\(ending)") }
    }
    for puppet in puppets { #expect(try puppet.answer() == "failed 200 rejected 0") }
    // On a busy host, each of the four may have given up waiting for the others.
    #expect(doctor(stage, "--repair").code == 0)
    let names = try Child.run("/bin/ls", [stage.directory.file("state")]).split(separator: "\n")
    #expect(
      names.count { $0.wholeMatch(of: /breakers.db.corrupt-[0-9TZ]*/) != nil } == 1, "\(names)")
    stage.clock.advance(by: .seconds(2))
    for puppet in puppets { #expect(try puppet.ask("run fail") == "failed") }
    #expect(try puppets.ask("health") == ["connected", "connected"])
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor finds no trouble in what programs do to the store`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(3, "max-failures=1000000 open-for=30s")
    try puppets.ask("run fail")
    try puppets.forEach { try $0.send("mixed 3000 3") }
    for _ in 0..<rounds(1_000) {
      let answer = doctor(stage)
      #expect(answer.code == 0, "\(answer)")
    }
    for puppet in puppets { _ = try puppet.answer() }
    #expect(doctor(stage).code == 0)
  }

  @Test(.timeLimit(.minutes(60)))
  func `a repair records the end of a probe whose process is gone`() throws {
    let stage = try Stage()
    let puppets = try stage.puppets(2, "max-failures=1 open-for=1s probe-timeout=1h")
    try puppets[0].ask("run fail")
    stage.clock.advance(by: .seconds(1))
    #expect(try puppets[0].ask("acquire") == "probe")
    #expect(doctor(stage).code == 0)
    puppets[0].kill()
    let found = doctor(stage)
    #expect(found.code == 0)
    #expect(line("leases", found).hasPrefix("note"))
    #expect(line("leases", found).contains("api (process \(puppets[0].pid) has ended)"))
    #expect(doctor(stage, "--repair").code == 0)
    #expect(line("leases", doctor(stage)).contains("0 probes under way"))
    let reason = "process \(puppets[0].pid) has ended"
    #expect(
      try Database.value(stage.store, "SELECT reason FROM event WHERE to_word = 'lost'") == reason)
    #expect(try puppets[1].ask("snapshot").contains("half_open automatic"))
    #expect(try puppets[1].ask("acquire") == "probe")
  }

  @Test(.timeLimit(.minutes(60)))
  func `a repair shortens a log that has grown too long once no process holds it`() throws {
    let stage = try Stage()
    let puppet = try stage.puppets(1, "max-failures=3")[0]
    try puppet.ask("run fail")
    do {
      let holder = try Holder(
        stage.store, "PRAGMA wal_autocheckpoint = 0; BEGIN; SELECT * FROM store")
      for _ in 0..<6 {
        try Database.rows(
          stage.store,
          "PRAGMA wal_autocheckpoint = 0; UPDATE breaker SET last_error = hex(randomblob(2000000))")
      }
      let found = doctor(stage)
      #expect(found.code == 1)
      #expect(line("log", found).hasPrefix("warn"), "\(found)")
      #expect(line("log", found).contains("process \(puppet.pid)"))
      withExtendedLifetime(holder) {}
    }
    let repaired = doctor(stage, "--repair")
    #expect(repaired.code == 0, "\(repaired)")
    #expect(line("log", repaired).contains("done: copy it into the file"))
    #expect(try puppet.ask("health") == "connected")
    #expect(try Database.integrity(stage.store) == "ok")
  }

  @Test(.timeLimit(.minutes(60)))
  func `the doctor names programs that disagree about a policy`() throws {
    let stage = try Stage()
    let one = try stage.puppets(1, "max-failures=3")[0]
    try one.ask("run fail")
    let other = try stage.puppets(1, "max-failures=4")[0]
    try other.ask("run fail")
    let recorder = Recorder()
    _ = ControlKit.run(
      arguments: ["--store", stage.store, "doctor"], console: recorder.console(),
      options: StoreOptions(clock: stage.clock.clock))
    #expect(recorder.output.contains("warn  policies"), "\(recorder.output)")
    #expect(recorder.output.contains("api: puppet (\(one.pid)) declares another policy"))
    one.kill()
    #expect(line("policies", doctor(stage)).hasPrefix("ok"))
  }

  @Test(
    .timeLimit(.minutes(60)), .enabled(if: SmallDisk.isPermitted, "needs root, to mount a tmpfs"))
  func `the doctor warns of a disk that is nearly full`() throws {
    let stage = try Stage()
    let disk = try SmallDisk(at: stage.directory.file("state"), kilobytes: 4_096)
    try Files.changeMode(stage.directory.file("state"), to: 0o700)
    let puppet = try stage.puppets(1, "max-failures=3")[0]
    try puppet.ask("run fail")
    let answer = doctor(stage)
    #expect(answer.code == 1)
    #expect(line("disk", answer).hasPrefix("warn  disk        tmpfs, "), "\(answer)")
    #expect(line("disk", answer).contains("nearly full"))
    puppet.kill()
    withExtendedLifetime(disk) {}
  }
}
