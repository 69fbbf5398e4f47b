import Glibc
import TestSupport

/// Scenarios of files of the store that are replaced or deleted under running programs.
extension Scenario {
  static let ofReplacedFiles = [
    Scenario(
      name: "restore",
      summary:
        "a copy moved into the place of the store is read whole, by running programs and newcomers"
    ) { scene in
      try scene.restore(withOldTime: false)
    },
    Scenario(
      name: "restore, old mtime",
      summary: "the same, with the old time put back on the directory, as 'cp -a' and 'rsync -a' do"
    ) { scene in
      try scene.restore(withOldTime: true)
    },
    Scenario(
      name: "deleted files",
      summary:
        "once all files are deleted, all programs come to one new store and count there exactly"
    ) { scene in
      let puppets = try scene.puppets(each: 2, windowed)
      _ = try puppets.ask("mixed 100 10")
      try scene.deleteFiles(under: puppets)
      try scene.tell(puppets, "name api")
      try scene.tell(puppets, "open \(windowed)")
      try scene.expectExactCounts(of: puppets)
    },
  ]
}

extension Scene {
  /// Deletes all files of the store, and waits until all programs use the next one.
  func deleteFiles(under puppets: [Puppet]) throws {
    for file in files { Files.removeAll(file) }
    try meet(puppets)
  }

  /// Waits until everything that each puppet writes is in the store that a new process opens.
  ///
  /// Only `cbctl` may read it: SQLite by itself would mistake the old log for that of the new file.
  func meet(_ puppets: [Puppet], as user: User? = nil) throws {
    var health: [String] = []
    _ = try until("all programs use the store that is there: \(health)") {
      for (index, puppet) in puppets.enumerated() {
        try tell([puppet], "name met\(index)")
        // A failure is written at once; the success after it keeps the breaker closed.
        _ = try puppet.ask("run fail")
        _ = try puppet.ask("run ok")
      }
      let status = try cbctl(.outside, "status --json", as: user).text
      if status.ranges(of: #""name":"met"#).count == puppets.count { return true }
      health = try puppets.ask("health")
      return nil
    }
  }

  fileprivate func restore(withOldTime isTimePutBack: Bool) throws {
    let first = try puppet(.outside)
    try fail([first], "kept")
    // Programs that start now remember this time of the directory.
    if isTimePutBack { try age() }
    let puppets = try puppets(each: 2)
    // Not beside the store, where it would change the time of the directory.
    let copy = storeDirectory + ".copy"
    let backup = try run(.outside, ["sqlite3", store, ".backup '\(copy)'"])
    expect(backup, hasCode: 0, "sqlite3 .backup")
    // Later changes are in the log, which stays in place.
    try fail(puppets, "kept")
    try fail(puppets, "lost")

    try Files.rename(copy, to: store)
    let newcomers: [Puppet]
    if isTimePutBack {
      try age()
      newcomers = []
      // No new process has started yet: it would change the time by creating and moving files.
      try tell(puppets, "name lost0")
      _ = try until("all programs have left the old file") {
        try puppets.ask("counts").allSatisfy { $0 == "window 0 0 totals 0 0 0" } ? true : nil
      }
    } else {
      newcomers = [try puppet(.inside), try puppet(.outside)]
      // One after the other: the first must not need anything that only the second can see.
      for newcomer in newcomers { _ = try newcomer.ask("run ok") }
    }
    for side in [Side.inside, .outside] {
      try expectRestored(try cbctl(side, "status --json"), "for 'status' \(side), right then")
    }
    try meet(newcomers + puppets + [first])
    for side in Side.allCases {
      try expectRestored(try cbctl(side, "status --json"), "for 'status' \(side), later")
    }
    try kill(newcomers + puppets + [first])
    try expectRestored(try cbctl(.outside, "status --json"), "after all were killed")
    expect(try Database.integrity(store), is: "ok", "integrity")
  }

  private static let breakers = 25

  /// Counts two failures of each of 25 breakers.
  private func fail(_ puppets: [Puppet], _ name: String) throws {
    for number in 0..<Self.breakers {
      let puppet = puppets[number % puppets.count]
      try tell([puppet], "name \(name)\(number)")
      expect(try puppet.ask("failures 2"), is: "failed 2 rejected 0", "failures of \(name)")
    }
  }

  /// Sets the time of the store's directory to the same instant of yesterday each time.
  private func age() throws {
    let time = timespec(tv_sec: Self.yesterday, tv_nsec: 0)
    var times = [time, time]
    guard unsafe utimensat(AT_FDCWD, storeDirectory, &times, 0) == 0 else {
      throw SupportError("utimensat", errno)
    }
  }

  private static let yesterday = time(nil) - 86_400

  private func expectRestored(_ status: Told, _ what: String) throws {
    expect(status, hasCode: 0, what)
    let lines = status.text.split(separator: "{").map { String($0) }
    let kept = lines.filter { $0.contains(#""name":"kept"#) }
    let lost = lines.filter { $0.contains(#""name":"lost"#) }
    expect(kept.count, is: Self.breakers, "breakers of the copy \(what)")
    expect(lost.count, is: 0, "breakers that the copy has not \(what)")
    let whole = kept.filter { $0.contains(#""consecutive_failures":2,"#) }
    expect(whole.count, is: kept.count, "breakers with the failures of the copy \(what)")
  }
}
