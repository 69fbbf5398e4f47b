internal import Glibc

/// Additional names of a store's file.
///
/// SQLite finds a log by the name of its file. Under a second name, the file therefore gets a
/// second log. Neither log knows what is in the other, and this damages the file
/// (sqlite.org/howtocorrupt.html, 2.5). Nothing tells what the other name is, or whether it is in
/// use. But where the log and its index have as many names as the file, as after `cp -al` of the
/// whole directory, every name leads to the same three files.
struct HardLinks {
  /// How many names the file has.
  let names: UInt64

  /// Whether the log and its index have as many names.
  let areShared: Bool

  /// Nil if the file has no other name, or does not exist.
  init?(of store: String) {
    guard let names = FileStatus(of: store)?.names, names > 1 else { return nil }
    self.names = names
    areShared = [StoreFile.logSuffix, StoreFile.indexSuffix].allSatisfy {
      FileStatus(of: store + $0)?.names ?? 0 >= names
    }
  }

  /// Refuses a file that can get another log under another name.
  ///
  /// A process that has the file open already continues, because it can do no further harm.
  static func refuse(_ store: String) throws(StoreError) {
    guard let links = HardLinks(of: store), !links.areShared else { return }
    throw StoreError(
      .other, code: EMLINK,
      "cannot use the store \(StoreError.visible(store)): its file has \(links.names) names, and"
        + " would get a log under each of them: delete the other names, which 'find -samefile'"
        + " lists, or replace the file with a copy")
  }
}
