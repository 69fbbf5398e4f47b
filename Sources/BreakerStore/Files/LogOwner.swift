/// Which file a log belongs to.
///
/// The log itself does not say so: SQLite assumes that it belongs to whatever file lies beside it
/// (sqlite.org/howtocorrupt.html, 1.4). Every process that uses a store therefore marks the log
/// with the file that it uses it with. If the file was replaced and others have not noticed yet, a
/// process that starts meanwhile finds out from the marks.
enum LogOwner {
  /// Whether the log beside a store is in use with an earlier file.
  ///
  /// A log that nobody uses may be needed: its file may have been replaced by a copy of itself.
  static func isOfAnother(beside store: String) -> Bool {
    guard let main = StoreFile.identity(of: store), let log = log(beside: store) else {
      return false
    }
    return log.isInUse(withAnotherThan: main)
  }

  /// The log beside a store; nil if there is none that can be opened.
  static func log(beside store: String, mayWrite: Bool = false) -> LogFile? {
    do throws(StoreError) {
      return try LogFile(path: store + StoreFile.logSuffix, mayWrite: mayWrite)
    } catch {
      return nil
    }
  }

  /// Whether there is an index without the log that it describes.
  ///
  /// Processes that had the log open when it was deleted still use the index. To SQLite it would
  /// say that a new log has all that the deleted one had.
  static func isIndexAlone(beside store: String) -> Bool {
    // SQLite creates the log before its index and deletes it after, so the index comes first here.
    StoreFile.identity(of: store + StoreFile.indexSuffix) != nil
      && StoreFile.identity(of: store + StoreFile.logSuffix) == nil
  }

  /// Moves another file's log, or an index without a log, out of the way before SQLite sees it.
  static func setAsideLeft(beside store: String, lockTimeout: Duration) throws(StoreError) {
    guard isOfAnother(beside: store) || isIndexAlone(beside: store) else { return }
    try StoreLock.held(store, atMost: lockTimeout) { _ throws(StoreError) in
      if isIndexAlone(beside: store) { StoreFile.setAside(store + StoreFile.indexSuffix) }
      // The first process to notice may have started another log.
      guard isOfAnother(beside: store) else { return }
      for suffix in [StoreFile.logSuffix, StoreFile.indexSuffix] {
        StoreFile.setAside(store + suffix)
      }
      guard !isOfAnother(beside: store) else { throw leftLog(beside: store) }
    }
  }

  /// The error for a store beside which processes still use the log of an earlier file.
  static func leftLog(beside store: String) -> StoreError {
    StoreError(
      .busy,
      "the store \(StoreError.visible(store)) was replaced, and the old file's log is still in"
        + " its place: try again")
  }
}
