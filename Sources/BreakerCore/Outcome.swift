/// How a call ended, as far as the breaker is concerned.
public enum Outcome: Sendable, Hashable {
  /// The resource did what was asked.
  case success

  /// The resource failed.
  case failure(Failure)

  /// The call says nothing about the resource: no credit, no blame, and its slot is free again.
  case ignored
}

/// What is known of a call that failed.
public struct Failure: Sendable, Hashable {
  /// What a failure asks of the breaker.
  public enum Kind: Sendable, Hashable {
    /// Counts towards the policy's trip conditions.
    case ordinary

    /// Opens the breaker at once: trying again cannot help.
    case permanent

    /// Opens the breaker at once, for the time that the resource itself named.
    case opens(for: Duration)
  }

  /// What the failure asks of the breaker.
  public var kind: Kind

  /// What went wrong, for people; at most 1 KiB of it is kept.
  public var error: String?

  /// Describes a failure.
  public init(_ kind: Kind = .ordinary, error: String? = nil) {
    self.kind = kind
    self.error = error
  }
}

extension Outcome {
  /// A failure that counts towards the policy's trip conditions.
  public static func failure(error: String? = nil) -> Outcome {
    .failure(Failure(.ordinary, error: error))
  }

  /// A failure that opens the breaker at once.
  public static func permanentFailure(error: String? = nil) -> Outcome {
    .failure(Failure(.permanent, error: error))
  }

  /// A failure that opens the breaker at once for the time that the resource named.
  public static func failure(opensFor duration: Duration, error: String? = nil) -> Outcome {
    .failure(Failure(.opens(for: duration), error: error))
  }
}

/// What became of a reported outcome.
public enum ReportVerdict: Sendable, Hashable {
  /// The outcome was judged by the breaker's policy.
  case counted

  /// The state has moved on, or is forced: the outcome is in the totals and changed nothing else.
  case outdated

  /// The probe had lost its lease, so that another may hold its slot: nothing was recorded.
  case refused
}
