internal import Glibc

/// Whether all who may use the store can, and nobody else.
enum FileExamination {
  static func findings(_ place: StorePlace) -> [StoreFinding] {
    [directory(place), files(place)]
  }

  private static func directory(_ place: StorePlace) -> StoreFinding {
    let its = place.ofDirectory.rights
    let store = place.file.rights
    let found = "\(place.directory), mode \(its.octal)"
    if its.mode & 0o002 != 0, !store.isWritableForAll {
      let isSticky = its.mode & UInt32(S_ISVTX) != 0
      // Elsewhere others may have good reason to make files.
      if !isSticky, isStoresOwn(place) {
        var wanted = its
        wanted.mode &= ~0o002
        return StoreFinding(
          .directory, .bad, found + ": everybody may write to it",
          means: "everybody can replace the store", repair: "change it to \(wanted.octal)",
          [.adjust(path: place.directory, wanted)])
      }
      return StoreFinding(
        .directory, isSticky ? .warning : .bad, found + ": everybody may write to it",
        means: isSticky
          ? "others can put files where the store's are missing, which are then refused"
          : "everybody can replace the store",
        repair: "none, for others may use the directory: move the store, or run chmod o-w")
    }
    guard store.isGroupWritable, place.directory != "/" else {
      return StoreFinding(.directory, .ok, found)
    }
    var wanted = its
    wanted.mode |= 0o2070
    wanted.group = store.group
    if wanted == its { return StoreFinding(.directory, .ok, found) }
    let isOwn = isStoresOwn(place)
    return StoreFinding(
      .directory, .warning, found + ", group \(its.group)",
      means: "users of group \(store.group), who share the store, cannot make or share the files"
        + " beside it",
      repair: isOwn
        ? "give it to group \(store.group) with mode \(wanted.octal)"
        : "none: others may use the directory: move the store to one of its own",
      isOwn ? [.adjust(path: place.directory, wanted)] : [])
  }

  /// Whether nothing lies in the directory but the store and what belongs to it.
  ///
  /// One that cannot be read has no names to show for it, not even the store's.
  private static func isStoresOwn(_ place: StorePlace) -> Bool {
    let name = StorePath.split(place.path).file
    let found = DirectoryListing.names(place.directory)
    return !found.isEmpty && found.allSatisfy { $0.hasPrefix(name) }
  }

  private static func files(_ place: StorePlace) -> StoreFinding {
    let store = place.file.rights
    var found: [String] = []
    var repair: [String] = []
    var remedies: [StoreRemedy] = []
    var isBad = false
    if let wanted = mendedStore(store) {
      found.append("the store has mode \(store.octal)")
      repair.append("change it to \(wanted.octal)")
      remedies.append(.adjust(path: place.path, wanted))
    }
    let shared = mendedStore(store) ?? store
    for suffix in StorePlace.suffixes {
      let path = place.beside(suffix)
      guard let status = FileStatus(of: path) else { continue }
      if let complaint = complaint(about: status, place) {
        isBad = true
        found.append("\(suffix) \(complaint)")
        repair.append("set \(suffix) aside")
        remedies.append(.setAside(suffix: suffix, status.identity))
        continue
      }
      guard differs(status.rights, from: shared) else { continue }
      // Given the rights of the store, it would have them wherever its other names are.
      if status.names > 1 {
        found.append("\(suffix) has \(status.names) names, and other rights than the store")
        repair.append("none for \(suffix): remove its other names")
        continue
      }
      // What is as wrong as the store itself is not told again.
      if differs(status.rights, from: store) {
        found.append(
          "\(suffix) has mode \(status.rights.octal), user \(status.rights.user),"
            + " group \(status.rights.group)")
      }
      repair.append("give \(suffix) the rights of the store")
      remedies.append(.adjust(path: path, shared))
    }
    let its = "the store has mode \(store.octal), user \(store.user), group \(store.group)"
    guard !found.isEmpty else {
      return StoreFinding(.files, .ok, "\(its), and so has all beside it")
    }
    return StoreFinding(
      .files, isBad ? .bad : .warning, found.joined(separator: "; "),
      means: isBad
        ? "it is refused, and never followed"
        : shared != store
          ? "who may read it can hold up all who write, so they have to be the same users"
          : "\(its): not all who may use it can use it whole",
      repair: repair.joined(separator: "; "), remedies)
  }

  /// Why a file is none that could be mended, or nil if it is one.
  private static func complaint(about file: FileStatus, _ place: StorePlace) -> String? {
    if file.isLink { return "is a symbolic link" }
    if !file.isRegular { return "is not a regular file" }
    guard PlantedFile.isAnothers(file.rights.user, in: place.directory) else { return nil }
    return "belongs to user \(file.rights.user), who may have put it there"
  }

  /// What the store's own rights have to be, or nil if they are right.
  ///
  /// No program, and who may read it may write it: reading takes locks in the files beside it.
  private static func mendedStore(_ rights: FileRights) -> FileRights? {
    var mode = rights.mode & 0o666 | 0o600
    for shift: UInt32 in [3, 0] where mode >> shift & 0o6 != 0o6 { mode &= ~(0o6 << shift) }
    if mode == rights.mode { return nil }
    var mended = rights
    mended.mode = mode
    return mended
  }

  /// Whose a file is says nothing where the group or everybody may write to it.
  private static func differs(_ rights: FileRights, from store: FileRights) -> Bool {
    if rights.mode != store.mode { return true }
    if store.isWritableForAll { return false }
    return store.isGroupWritable ? rights.group != store.group : rights.user != store.user
  }
}
