import Glibc
import TestSupport

/// Scenarios of users that may or may not use a store.
extension Scenario {
  static let ofUsers = [
    Scenario(
      name: "group",
      summary: "two users of a group share a store, also after its files were deleted",
      needsRoot: true
    ) { scene in
      guard let entry = unsafe getgrnam("users") else { throw SupportError("no group 'users'") }
      let group = unsafe Int(entry.pointee.gr_gid)
      let users: [Scene.Side: Scene.User] = [
        .outside: Scene.User(user: 20_001, group: group),
        .inside: Scene.User(user: 20_002, group: group),
      ]
      let made = try scene.cbctl(.outside, "init --mode 660 --group users")
      scene.expect(made, hasCode: 0, "'init'")
      let puppets = try (0..<2).flatMap { _ in
        try Scene.Side.allCases.map { try scene.puppet($0, as: users[$0]) }
      }
      try scene.tell(puppets, "open \(windowed)")
      _ = try puppets.ask("mixed 100 10")
      let removed = try scene.run(.inside, ["rm"] + scene.files, as: users[.inside])
      scene.expect(removed, hasCode: 0, "'rm'")
      try scene.meet(puppets, as: users[.outside])
      let rights = try Set(
        scene.files.map { try Files.permissions(of: $0) }.map {
          "\(String($0.mode, radix: 8)), group \($0.group)"
        })
      scene.expect(rights, is: ["660, group \(group)"], "rights of the new files")
      for side in Scene.Side.allCases {
        let doctor = try scene.cbctl(side, "doctor", as: users[side])
        scene.expect(doctor, hasCode: 0, "'doctor' of the user \(side)")
      }
      try scene.tell(puppets, "name tripped")
      try scene.tell(puppets, "open max-failures=1 open-for=10m")
      scene.expect(try puppets[1].ask("run fail"), is: "failed", "the failure that trips")
      try scene.expectAllRejected(puppets, "after a trip by the other user")
      try scene.tell(puppets, "name api")
      try scene.tell(puppets, "open \(windowed)")
      try scene.expectExactCounts(of: puppets, as: users)
    },
    Scenario(
      name: "stranger",
      summary: "a user without rights gets clear errors, goes on alone and changes nothing",
      needsRoot: true
    ) { scene in
      let nobody = Scene.User(user: 65_534, group: 65_534)
      let owner = try scene.puppet(.outside)
      try scene.tell([owner], "open max-failures=3")
      scene.expect(try owner.ask("run fail"), is: "failed", "a failure")
      let before = try scene.contents()
      let commands = [
        "status", "show api", "check api", "trip api", "force api forced_open", "reset api",
      ]
      for command in commands {
        let told = try scene.cbctl(.inside, command, as: nobody)
        scene.expect(told, hasCode: 69, "'\(command)'")
        scene.expect(
          told.text.contains("permission denied") && told.text.split(separator: "\n").count == 1,
          "'\(command)' says: \(told.text.inOneLine)")
      }
      let job = try scene.cbctl(.inside, "run api --quiet -- echo ran", as: nobody)
      scene.expect(job, hasCode: 0, "'run'")
      scene.expect(job.text.contains("ran\n"), "'run' did not run: \(job.text.inOneLine)")
      let stranger = try scene.puppet(.inside, as: nobody)
      try scene.tell([stranger], "open max-failures=3 open-for=10m")
      let failures = try stranger.ask("failures 4")
      scene.expect(failures, is: "failed 3 rejected 1", "a breaker of its own")
      let health = try stranger.ask("health")
      scene.expect(health.contains("permission denied"), "its health: \(health)")
      scene.expect(try scene.contents() == before, "a user without rights changed the files")
      let counts = try owner.ask("counts")
      scene.expect(counts, is: "window 0 0 totals 0 1 0", "the owner's counts")
      scene.expect(try owner.ask("run ok"), is: "ok 42", "the owner's next call")
    },
  ]
}

extension Scene {
  /// The contents of all files in the directory of the store.
  fileprivate func contents() throws -> [String: [UInt8]] {
    let paths = try Files.all(in: storeDirectory)
    return Dictionary(uniqueKeysWithValues: try paths.map { ($0, try Files.read($0)) })
  }
}
