internal import BreakerStore
internal import SharedBreaker

/// Whether and how the store of a test host fails.
final class StoreFailure: Sendable {
  /// What the store is needed for.
  enum Purpose { case reading, writing, making }

  private let kind = Guarded<StoreError.Kind?>(nil)

  func set(_ kind: StoreError.Kind?) { self.kind.withLock { $0 = kind } }

  /// Throws if the store fails for a purpose.
  func check(_ purpose: Purpose) throws(StoreError) {
    if let error = error(purpose) { throw error }
  }

  /// Why the store fails for a purpose; nil if it does not.
  func error(_ purpose: Purpose) -> StoreError? {
    guard let kind = kind.withLock({ $0 }), Self.prevents(kind, purpose) else { return nil }
    return StoreError(
      kind, "the store of the test host fails (\(kind)), as it was told to: call repairStore()")
  }

  private static func prevents(_ kind: StoreError.Kind, _ purpose: Purpose) -> Bool {
    switch kind {
    case .tooManyBreakers: purpose == .making
    case .busy, .diskFull, .readOnly: purpose != .reading
    case .missing, .notADirectory, .isDirectory, .isSymbolicLink, .permissionDenied, .corrupt,
      .notAStore, .newerVersion, .networkFileSystem, .inputOutput, .other:
      true
    }
  }
}
