import TestSupport

/// Scenarios of hooks that run in one of several processes.
extension Scenario {
  static let ofHooks = [
    Scenario(
      name: "hook", summary: "three processes with one hook handle each entry once, in order"
    ) { scene in
      let puppets = [
        try scene.puppet(.outside), try scene.puppet(.inside), try scene.puppet(.inside),
      ]
      let (file, go) = (scene.directory.file("handled"), scene.directory.file("go"))
      try scene.handle(puppets, "pager", "\(file) until \(go)")
      let trippers = try Scene.Side.allCases.map { try scene.puppet($0) }
      for (index, tripper) in trippers.enumerated() { try tripper.send("trips 10 breaker\(index)") }
      for tripper in trippers { scene.expect(try tripper.answer(), is: "ok", "trips") }
      let entries = try Database.rows(scene.store, "SELECT id FROM event ORDER BY id").map { $0[0] }
      scene.expect(entries.count, is: 40, "entries of 20 trips and as many resets")
      // While one process is busy with the first entry, no other one may run its hook.
      let heard = try puppets.ask("heard").filter { !$0.isEmpty }
      scene.expect(heard, is: ["1"], "entries that hooks are busy with")
      try Files.write(go, [])
      try scene.expectHandled(entries, in: file)
    },
    Scenario(
      name: "old hook",
      summary: "a hook that ends after the store was deleted settles nothing in the new one"
    ) { scene in
      let (old, new) = (try scene.puppet(.inside), try scene.puppet(.outside))
      let tripper = try scene.puppet(.outside)
      let (file, go) = (scene.directory.file("handled"), scene.directory.file("go"))
      try scene.tell([tripper], "trips 30 api")
      try scene.handle([old], "pager", "\(file) until \(go)-old")
      try scene.tell([tripper], "trips 1 api")
      scene.expect(try old.ask("hear 1"), is: "61", "the entry that the old hook handles")

      try scene.deleteFiles(under: [old, new, tripper])
      let last = try Database.value(scene.store, "SELECT coalesce(max(id), 0) FROM event")
      scene.expect(last, is: "0", "entries of the new store")
      try scene.handle([new], "pager", "\(file) until \(go)-new")
      try scene.tell([tripper], "trips 3 api")
      scene.expect(try new.ask("hear 1"), is: "1", "the entry that the new hook handles")
      try Files.write("\(go)-old", [])
      _ = try scene.until("the old hook has ended") {
        try scene.handled(file) == ["61"] ? true : nil
      }
      // By the time its task has ended, its process has reported the entry.
      try scene.tell([old], "silence")
      try Files.write("\(go)-new", [])
      try scene.expectHandled(["61", "1", "2", "3", "4", "5", "6"], in: file)
    },
    Scenario(
      name: "lost hook", summary: "a process that is killed in its hook leaves the entry to another"
    ) { scene in
      for side in Scene.Side.allCases where side == .outside || scene.environment.runsTasks {
        let heir = try scene.puppet(scene.environment.runsTasks ? .inside : .outside)
        let victim = try scene.puppet(side)
        let tripper = try scene.puppet(.outside)
        let (hook, file) = ("pager-\(side)", scene.directory.file("handled-\(side)"))
        try scene.handle([victim], hook, "\(file) until \(file)-never")
        try scene.tell([tripper], "trips 1 \(side)")
        scene.expect(try victim.ask("hear 1").isEmpty, is: false, "an entry for the hook \(side)")
        let handled = try Database.value(scene.store, "SELECT max(id) - 1 FROM event")
        try scene.tell([heir], "handle \(hook) \(file)")
        try scene.kill(victim)
        // The hook may take a minute for an entry, and this waits for half of that at most.
        try scene.expectHandled([handled, "\((Int(handled) ?? 0) + 1)"], in: file)
        try scene.tell([heir], "silence")
      }
    },
  ]
}

extension Scene {
  /// Makes processes handle what happens from now on.
  fileprivate func handle(_ puppets: [Puppet], _ hook: String, _ file: String) throws {
    try tell(puppets, "connect")
    try tell(puppets, "handle \(hook) \(file)")
    _ = try until("the hook is known") {
      try Database.value(store, "SELECT count(*) FROM hook WHERE name = '\(hook)'") == "1"
        ? true : nil
    }
  }

  fileprivate func expectHandled(_ entries: [String], in file: String) throws {
    var seen: [String] = []
    _ = try until("all of \(entries) are handled, not only \(seen)") {
      seen = try handled(file)
      return seen.count >= entries.count ? true : nil
    }
    expect(seen, is: entries, "entries handled")
  }

  fileprivate func handled(_ file: String) throws -> [String] {
    guard Files.exists(file) else { return [] }
    return String(decoding: try Files.read(file), as: UTF8.self).split(separator: "\n").map {
      String($0)
    }
  }
}
