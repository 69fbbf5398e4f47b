import Glibc
import TestShim
import TestSupport
import Testing

/// Directories where every user may create files, and where one user plants files for another.
@Suite(.enabled(if: isSuperuser, "needs root, to become other users"))
struct PlantedFileTests {
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

  /// Creates the directory, with a file that another user has planted there.
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

  @Test(.timeLimit(.minutes(60)), arguments: Plant.allCases, ["", "-wal", "-shm"])
  func `a command does not use a file that another user has planted`(plant: Plant, suffix: String)
    async throws
  {
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

  @Test(.timeLimit(.minutes(60)), arguments: [Plant.link, .fifo, .file], ["-wal", "-shm"])
  func `a repair sets a planted file aside and adopts nothing`(plant: Plant, suffix: String)
    async throws
  {
    let directory = try TemporaryDirectory()
    let (store, target) = try await prepare(directory, plant, suffix)
    try Files.changeMode(store, to: 0o600)
    let repaired = cbctl(store, "doctor", "--repair")
    #expect(repaired.output.contains("; repair: done: set \(suffix) aside"), "\(repaired)")
    #expect(cbctl(store, "run", "x", "--", "false").errors.isEmpty)
    #expect(try Files.permissions(of: store + suffix).user == 0)
    #expect(try Files.read(target) == Array("precious".utf8))
  }

  @Test(.timeLimit(.minutes(60)), arguments: Plant.allCases)
  func `a command does not lock a file that another user has planted`(plant: Plant) async throws {
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

  @Test func `a repair refuses a store of another user`() async throws {
    let directory = try TemporaryDirectory()
    let (store, _) = try await prepare(directory, .file, "")
    let answer = cbctl(store, "doctor", "--repair")
    #expect(answer.code == 69 && answer.errors.contains("it belongs to user nobody"), "\(answer)")
  }

  @Test(.timeLimit(.minutes(60)), arguments: Plant.allCases)
  func `a command does not count in a file that another user has planted`(plant: Plant) async throws
  {
    let directory = try TemporaryDirectory()
    let (store, target) = try await prepare(directory, plant, "-counters")
    #expect(cbctl(store, "run", "x", "--", "true").code == 0)
    #expect(cbctl(store, "run", "x", "--", "false").code == 1)
    #expect(cbctl(store, "show", "x", "--json").output.contains(#""successes":1,"failures":1"#))
    #expect(try Files.read(target) == Array("precious".utf8))
    // Root replaces it with a file of its own, unless it is a directory.
    let counters = try Files.permissions(of: store + "-counters")
    #expect(counters.user == 0 ? counters.mode == 0o644 : plant == .directory)
  }

  @Test func `a user can use its own store where all users may create files`() async throws {
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
    // Root refuses a file that another user has put there.
    #expect(cbctl(folder + "/breakers.db", "status").code == 69)
  }

  @Test(
    .timeLimit(.minutes(60)), arguments: [0o1770, 0o1777, 0o755] as [UInt32], ["-wal", "-shm"])
  func `root does not use a file beside its store of a user who may only create files there`(
    mode: UInt32, suffix: String
  ) async throws {
    let directory = try TemporaryDirectory()
    let folder = directory.file("theirs")
    try Files.makeDirectory(folder)
    let store = folder + "/breakers.db"
    #expect(cbctl(store, "policy", "x", "--set", "probes=2").code == 0)
    for part in ["-wal", "-shm"] { Files.removeAll(store + part) }
    try Files.changeOwner(folder, to: stranger)
    try Files.changeMode(folder, to: mode)
    await #expect(processExitsWith: .success) { [path = store + suffix as String] in
      try become(user: stranger, group: stranger)
      Self.plant(.file, at: path, target: "")
    }
    for words in ["status", "doctor", "check"] {
      let answer = words == "check" ? cbctl(store, words, "x") : cbctl(store, words)
      #expect(answer.code != 0, "\(answer)")
      #expect((answer.output + answer.errors).contains("belongs to user nobody"), "\(answer)")
      #expect(try Files.permissions(of: store + suffix).user == stranger, "\(words)")
    }
  }

  /// The place of the index, for an observer without context.
  private nonisolated(unsafe) static var place = ""

  @Test func `a file that appears between the check and SQLite's use of the name is not adopted`()
    async throws
  {
    let directory = try TemporaryDirectory()
    for suffix in ["-shm", "-wal"] {
      let folder = directory.file("open" + suffix)
      try Files.makeDirectory(folder)
      try Files.changeMode(folder, to: 0o1777)
      let store = folder + "/breakers.db"
      #expect(cbctl(store, "policy", "x", "--set", "probes=2").code == 0)
      for part in ["-wal", "-shm"] { Files.removeAll(store + part) }
      await #expect(processExitsWith: .success) { [path = store + suffix as String] in
        unsafe Self.place = path
        unsafe ts_watch_statements { _, _ in
          let other = unsafe open(Self.place, O_CREAT | O_EXCL | O_RDWR, 0o600)
          if other >= 0 { precondition(fchown(other, stranger, stranger) == 0) }
        }
        let store = String(path.dropLast(4))
        let answer = cbctl(store, "status")
        var status = stat()
        precondition(unsafe lstat(path, &status) == 0)
        // The process that creates it holds a descriptor of it.
        for descriptor in Int32(3)..<256 {
          var its = stat()
          guard unsafe fstat(descriptor, &its) == 0, its.st_ino == status.st_ino else { continue }
          precondition(fcntl(descriptor, F_GETFD) & FD_CLOEXEC != 0, "\(answer)")
        }
        precondition(answer.code == 0, "\(answer)")
      }
    }
  }

  @Test(
    .timeLimit(.minutes(60)),
    arguments: ["-wal", "-shm", "-counters", "-slots", "-lock", "-relay"])
  func `a repair never gives a private file to the group of the store`(suffix: String) throws {
    let directory = try TemporaryDirectory()
    let folder = directory.file("shared")
    try Files.makeDirectory(folder)
    let store = folder + "/breakers.db"
    #expect(cbctl(store, "policy", "x", "--set", "probes=2").code == 0)
    for part in ["", "-wal", "-shm", "-counters", "-lock"] {
      unsafe chown(store + part, 0, workers)
      try Files.changeMode(store + part, to: 0o660)
    }
    unsafe chown(folder, 0, workers)
    try Files.changeMode(folder, to: 0o2770)
    for owner in [stranger, 0] {
      let letter = directory.file("letter")
      try Files.write(letter, Array("dear diary, this is nobody else's business at all".utf8))
      try Files.changeOwner(letter, to: owner)
      try Files.changeMode(letter, to: 0o600)
      try Files.rename(letter, to: store + suffix)
      for options in [[], ["--repair"]] {
        _ = options.isEmpty ? cbctl(store, "doctor") : cbctl(store, "doctor", "--repair")
        for name in Files.names(in: folder) where name.hasPrefix("breakers.db" + suffix) {
          let path = folder + "/" + name
          guard try Files.read(path).starts(with: Array("dear diary".utf8)) else { continue }
          let found = try Files.permissions(of: path)
          #expect(found.mode == 0o600 && found.user == owner, "\(found)")
          // SQLite gives root's own files to the store's group, which without a mode gains nothing.
          #expect(owner == 0 || found.group == owner, "\(found)")
        }
      }
    }
  }
}
