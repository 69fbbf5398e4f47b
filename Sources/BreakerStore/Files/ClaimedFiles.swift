internal import Glibc

/// The log and its index, claimed before SQLite opens them in a directory that is open to others.
///
/// SQLite creates both if they are missing, and opens whatever it finds instead. Between a check of
/// the names and that, another user could put a file there, so there must be no moment at which a
/// name is free: what is missing is created here first. Afterwards, SQLite must have found the same
/// files.
struct ClaimedFiles {
  /// Where a database's header says that there is a log (sqlite.org/fileformat2.html, 1.3.3).
  private static let offsetOfVersions: Int64 = 18

  private let store: String
  private var identities: [String: FileIdentity] = [:]

  /// Whether the files still have to be claimed, once the store has its log.
  let areOpen: Bool

  /// Creates what is missing beside a store that has a log, if others may create files there.
  ///
  /// - Throws: `StoreError` if another user's file is there.
  init(beside store: String, in directory: String) throws(StoreError) {
    self.store = store
    guard PlantedFile.isOpenToOthers(directory) else {
      areOpen = false
      return
    }
    guard let main = FileStatus(of: store), Self.hasLog(store) else {
      areOpen = true
      return
    }
    areOpen = false
    // In SQLite's own order: an index without a log is set aside.
    for suffix in [StoreFile.logSuffix, StoreFile.indexSuffix] {
      let path = store + suffix
      if FileStatus(of: path) == nil, !Self.create(path, like: main.rights) { continue }
      try PlantedFile.refuse(store, in: directory, parts: [suffix])
      identities[suffix] = FileStatus(of: path)?.identity
    }
  }

  /// Makes sure that SQLite found the claimed files.
  func verify() throws(StoreError) {
    for (suffix, identity) in identities
    where StoreFile.identity(of: store + suffix) != identity {
      throw StoreError.replaced(store)
    }
  }

  /// Creates an empty file, which is what SQLite begins with too; false if there can be none.
  private static func create(_ path: String, like store: FileRights) -> Bool {
    do throws(StoreError) {
      close(try NewFile.create(path, store, mustHave: false))
      return true
    } catch {
      // A user who may only read creates neither. Another process may just have been faster.
      return error.code == EEXIST
    }
  }

  /// Whether the file says that it has a log; an empty log would make SQLite assume that it does.
  private static func hasLog(_ store: String) -> Bool {
    do throws(StoreError) {
      let connection = try Connection(
        reading: store, way: Connection.immutable, lockTimeout: .zero)
      return connection.header(at: offsetOfVersions, count: 2) == [2, 2]
    } catch {
      return false
    }
  }
}
