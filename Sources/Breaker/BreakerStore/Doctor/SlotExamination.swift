internal import BreakerCore
internal import Glibc

/// Checks the file of the calls that are under way under limits.
struct SlotExamination {
  let place: StoreSite
  let header: StoreHeader

  private static let aside =
    "set them aside; calls that are under way end in them, and the next call makes new ones"

  func finding() -> StoreFinding {
    let path = place.beside(SlotFile.kind.suffix)
    guard let status = FileStatus(of: path), status.isRegular else {
      return StoreFinding(
        .slots, .ok, "there are none: the first call under a limit creates them")
    }
    guard let file = SharedFile.opened(SlotFile.kind, path, O_RDONLY) else {
      return StoreFinding(
        .slots, .warning, "this user cannot read them",
        means: "what this user calls is limited apart from all others")
    }
    defer { close(file.descriptor) }
    guard isWritable(path) else {
      return StoreFinding(
        .slots, .warning, "this user cannot write to them",
        means: "what this user calls is limited apart from all others",
        repair: "none: 'lsattr' shows whether 'chattr' has made the file immutable")
    }
    guard !isCutOff(file) else {
      return StoreFinding(
        .slots, .bad, "the file was cut off",
        means: "the system kills a program that calls under a limit (SIGBUS)",
        repair: Self.aside, [.setAside(suffix: SlotFile.kind.suffix, file.identity)])
    }
    guard let own = file.header, header.isUnknown || own.store == header.identity else {
      return StoreFinding(
        .slots, .warning, "damaged, or of another store",
        means: "programs that start make new ones, and more than a limit may be under way until the"
          + " calls of running ones have ended",
        repair: Self.aside, [.setAside(suffix: SlotFile.kind.suffix, file.identity)])
    }
    guard header.isUnknown || own.boot == header.boot.number else {
      return StoreFinding(
        .slots, .note, "of an earlier boot", means: "the next call under a limit makes new ones")
    }
    let damage = SlotDamage.found(in: file)
    if let damage, !damage.isNone {
      return StoreFinding(
        .slots, .warning, words(damage),
        means:
          "more or fewer calls than a limit says may be under way, and lost ones may be miscounted",
        repair: Self.aside, [.setAside(suffix: SlotFile.kind.suffix, file.identity)])
    }
    if let shortage = SlotPage.shortage(in: file, of: place.path) {
      return StoreFinding(.slots, .warning, shortage.found, means: shortage.means)
    }
    guard damage != nil, let states = SlotPage.states(in: file, of: place.path, choose: { $0 })
    else {
      return StoreFinding(.slots, .warning, "they cannot be read whole")
    }
    return judged(Array(states.values))
  }

  private func isWritable(_ path: String) -> Bool {
    guard let file = SharedFile.opened(SlotFile.kind, path, O_RDWR) else { return false }
    close(file.descriptor)
    return true
  }

  /// Whether the file ends before something that processes may have mapped.
  ///
  /// A longer one does no harm, and neither does one with holes: a process fills those that it maps.
  private func isCutOff(_ file: SharedFile) -> Bool {
    guard Int(file.size) >= SlotFile.kind.bytesOfHeader,
      let head = SlotMapping(copying: file, 0, SlotFile.kind.bytesOfHeader)
    else { return true }
    return Int(file.size) < SlotPage.end(ofBlocksIn: head, of: file)
  }

  private func words(_ damage: SlotDamage) -> String {
    let limits = CountedNoun.text(damage.blocks.count, "limit")
    if !damage.isInTables { return "damaged: the slots of \(limits)" }
    return damage.blocks.isEmpty
      ? "damaged: the tables" : "damaged: the tables, and the slots of \(limits)"
  }

  private func judged(_ states: [SlotState]) -> StoreFinding {
    let calls = states.flatMap(\.calls)
    let waiters = states.flatMap(\.waiters)
    let living = calls.filter { !$0.isGone }
    let found =
      CountedNoun.text(living.count, "call") + " under way, "
      + CountedNoun.text(waiters.count { !$0.isGone }, "caller") + " waiting, under "
      + CountedNoun.text(states.count, "limit")
    let stopped = Set(living.compactMap(\.process)).filter {
      ProcessTable.fate(of: $0) == .running && ProcessTable.isStopped($0.pid)
    }
    if !stopped.isEmpty {
      return StoreFinding(
        .slots, .warning, "\(found); \(words(stopped)) stopped with calls under way",
        means: "nobody else gets their room",
        repair: "none: continue what is stopped with 'kill -CONT', or end it")
    }
    let left = (calls + waiters).filter(\.isGone)
    if !left.isEmpty {
      let owners = Set(left.compactMap(\.process))
      let whose = owners.isEmpty ? "processes that nobody knows" : words(owners)
      return StoreFinding(
        .slots, .note, "\(found); \(left.count) left by \(whose)",
        means: "the next one who looks for room frees what they had")
    }
    let judge = OwnerJudge(of: place.path)
    let hidden = Set(living.compactMap(\.process)).filter { judge.isOutOfSight($0) }
    guard !hidden.isEmpty else { return StoreFinding(.slots, .ok, found) }
    return StoreFinding(
      .slots, .note, "\(found); \(words(hidden)) out of sight, without a lifeline",
      means:
        "nobody sees it from here when one ends, as on overlayfs across PID namespaces: its room is free"
        + " a day after it took it")
  }

  private func words(_ processes: Set<ProcessIdentity>) -> String {
    let sorted = processes.sorted { $0.pid < $1.pid }
    let first = sorted.prefix(3).map { process in
      ProcessTable.name(of: process).map { "process \(process.pid) (\($0))" }
        ?? "process \(process.pid)"
    }
    let rest = processes.count - first.count
    return first.joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
  }
}
