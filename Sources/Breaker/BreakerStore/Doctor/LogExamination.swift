internal import BreakerCore
internal import Glibc

/// Checks the log, the counters, leftover files, and the processes that have the store open.
struct LogExamination {
  let place: StoreSite
  let users: StoreUsers

  /// A longer log means that some process keeps it from restarting.
  private static let longest = LogLength.limitInBytes * 4

  func log() -> StoreFinding {
    let log = FileStatus(of: place.beside(StoreFile.logSuffix))
    let index = FileStatus(of: place.beside(StoreFile.indexSuffix))
    guard let log, log.isRegular else { return StoreFinding(.log, .ok, "there is none") }
    let found = "\(log.size >> 10) KiB"
    if LogOwner.isOfAnother(beside: place.path) {
      return StoreFinding(
        .log, .bad, "\(found), left by another file that was here before",
        means: "it does not belong to this file: every program of this version sets it aside",
        repair: "set it aside, with its index", [.open])
    }
    if log.size > 0, index == nil {
      return StoreFinding(
        .log, .warning, "\(found), without its index",
        means: "the next use creates it again, and reads the whole log for that",
        repair: "open the store once", [.open])
    }
    guard log.size > Self.longest else { return StoreFinding(.log, .ok, found) }
    return StoreFinding(
      .log, .warning, "\(found); more than \(Self.longest >> 10) KiB is unusual",
      means: "a process keeps an old state of the file open, or nobody has written since"
        + users.readers.words(before: ": look at "),
      repair: "copy it into the file", [.foldLog])
  }

  func processes() -> StoreFinding {
    if let stopped = users.stoppedWriter {
      return StoreFinding(
        .processes, .bad, "\(stopped.words) is stopped while it writes",
        means: "nobody else can write, so each process goes on with breakers of its own",
        repair: "none: continue it with 'kill -CONT', or end it")
    }
    if !users.ofOthers.isEmpty {
      return StoreFinding(
        .processes, .note,
        users.ofOthers.words(before: "") + ", with files open that were replaced",
        means: "each switches to the new files at its next use of the store, within a second")
    }
    let hidden = users.isComplete ? "" : ", as far as this user may see"
    let found = users.readers.isEmpty ? "nobody has it open" : users.readers.words(before: "")
    return StoreFinding(.processes, .ok, found + hidden)
  }

  func leftovers() -> StoreFinding {
    let name = StorePath.split(place.path).file
    let kept = DirectoryListing.names(place.directory).filter {
      guard $0.hasPrefix(name), $0 != name else { return false }
      let rest = $0.dropFirst(name.count)
      return !StoreSite.suffixes.contains(String(rest))
        && rest.indices.contains { index in
          [
            ".orphan", SetAside.damaged, SetAside.replaced, ".new-", "-counters.new", "-slots.new",
            "-journal",
          ].contains {
            rest[index...].hasPrefix($0)
          }
        }
    }
    guard !kept.isEmpty else { return StoreFinding(.leftovers, .ok, "there are none") }
    return StoreFinding(
      .leftovers, .note, kept.sorted().joined(separator: ", "),
      means: "no program uses them: delete them when you no longer need to know why they are there")
  }

  /// Checks the counters that processes share.
  func counters(_ header: StoreHeader) -> StoreFinding {
    let path = place.beside(CounterFile.suffix)
    guard let file = FileStatus(of: path), file.isRegular else {
      return StoreFinding(
        .counters, .ok, "there are none: the first process that counts creates them")
    }
    let aside =
      "set them aside; running programs count in the old ones until they are restarted"
    switch CounterFile.look(path, header) {
    case .fits:
      return StoreFinding(.counters, .ok, "of this store and this boot")
    case .ofEarlierBoot:
      return StoreFinding(
        .counters, .note, "of an earlier boot", means: "the next use of the store takes them over")
    case .unreadable:
      return StoreFinding(.counters, .warning, "this user cannot read them")
    case .truncated:
      return StoreFinding(
        .counters, .bad, "the file was cut off",
        means: "the system kills a program that counts beyond the end of the file (SIGBUS)",
        repair: aside, [.setAside(suffix: CounterFile.suffix, file.identity)])
    case .foreign:
      return StoreFinding(
        .counters, .warning, "damaged, or of another store",
        means: "programs that start create new ones, and the latest counts are lost",
        repair: aside, [.setAside(suffix: CounterFile.suffix, file.identity)])
    }
  }
}

extension CounterFile {
  /// The state of a counter file, judged without using it.
  enum Look {
    case fits, ofEarlierBoot, foreign, truncated, unreadable
  }

  static func look(_ path: String, _ store: StoreHeader) -> Look {
    guard let file = opened(path, O_RDONLY) else { return .unreadable }
    defer { close(file.descriptor) }
    let size = Int(lseek(file.descriptor, 0, SEEK_END))
    let beyondHeader = size - offset(ofSegment: 0)
    guard beyondHeader >= 0, beyondHeader % bytesOfSegment == 0 else { return .truncated }
    guard let header = file.header else { return .foreign }
    if store.isUnknown { return .fits }
    guard header.store == store.identity else { return .foreign }
    return header.boot == store.boot.number ? .fits : .ofEarlierBoot
  }
}
