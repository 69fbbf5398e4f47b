import TestSupport

/// Scenarios in which files of the store are used as they should not be.
extension Scenario {
  static let ofFileUse = [
    Scenario(
      name: "backup thread",
      summary: "a thread of each process reads the store's files, which drops SQLite's locks"
    ) { scene in
      let puppets = try scene.puppets(each: 2, windowed)
      try scene.tell(puppets, "meddle file -wal -shm")
      try scene.expectExactCounts(of: puppets)
    },
    Scenario(
      name: "lone mount",
      summary: "a store that is mounted without its directory is refused; with it, it is shared",
      needsRoot: true
    ) { scene in
      let owner = try scene.puppet(.outside)
      try scene.tell([owner], "open max-failures=3")
      scene.expect(try owner.ask("run fail"), is: "failed", "a failure")
      let other = scene.directory.file("other")
      try Files.makeDirectory(other)
      func status(_ mount: String) throws -> Scene.Told {
        try scene.run(
          .inside,
          [
            "unshare", "--mount", "sh", "-ec", "\(mount)\nexec \"$@\"", "sh",
            BuiltProducts.path(of: "cbctl"), "--store", other + "/breakers.db", "status",
          ])
      }
      let whole = try status("mount --bind '\(scene.storeDirectory)' '\(other)'")
      scene.expect(whole, hasCode: 0, "'status' of the mounted directory")
      let alone = try status(
        "touch '\(other)/breakers.db'; mount --bind '\(scene.store)' '\(other)/breakers.db'")
      scene.expect(alone, hasCode: 69, "'status' of the mounted file")
      scene.expect(
        alone.text.contains("mount the directory"), "'status' says: \(alone.text.inOneLine)")
      scene.expect(try owner.ask("failures 2"), is: "failed 2 rejected 0", "further failures")
      scene.expect(try Database.integrity(scene.store), is: "ok", "integrity")
    },
  ]
}
