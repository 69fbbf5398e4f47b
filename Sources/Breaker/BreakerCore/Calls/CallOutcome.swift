/// How a call ended, as far as the breaker is concerned.
///
/// No version adds cases, so a `switch` over an outcome needs no `default`.
public enum CallOutcome: Sendable, Hashable {
  /// The resource did what was asked.
  case success

  /// The resource failed.
  case failure(Failure)

  /// The resource works, and asks to be left alone for a time, as HTTP 429 does.
  ///
  /// It counts neither as a success nor as a failure.
  case hold(Hold)

  /// The call tells you nothing about the resource: it counts neither way, and frees its slot.
  case ignored
}

extension CallOutcome {
  /// Whether the outcome is a failure of any kind.
  public var isFailure: Bool {
    if case .failure = self { true } else { false }
  }

  /// Whether the outcome leaves more behind than a count, whatever the breaker's state is.
  package var isWritten: Bool { isFailure || asksToHold }

  /// Whether the outcome asks to leave the resource alone.
  package var asksToHold: Bool {
    if case .hold = self { true } else { false }
  }

  /// A wish of the resource to be left alone.
  public struct Hold: Sendable, Hashable {
    /// A time in the one form or the other.
    package enum Time: Sendable, Hashable {
      case lasting(Duration)

      /// Milliseconds since 1970, on the wall clock.
      case until(Int64)
    }

    /// The time that was named; nil if none was.
    package var time: Time?

    /// Why, for people to read; at most 1 KiB of it is kept.
    public var reason: String?

    package init(_ time: Time?, reason: String? = nil) {
      self.time = time
      self.reason = reason
    }

    /// How many nanoseconds are left of the time; nil if none was named.
    package func nanoseconds(at now: Moment) -> Int64? {
      switch time {
      case nil: nil
      case .lasting(let duration): duration.inNanoseconds
      case .until(let milliseconds):
        milliseconds.subtractingSaturating(now.wallMilliseconds)
          .multipliedSaturating(by: 1_000_000)
      }
    }
  }

  /// The resource works, and asks to be left alone for a time.
  ///
  /// Until then, the breaker rejects the calls of all processes as *held*. If several times are named, the latest
  /// counts. `hold-max` cuts a time that is longer.
  ///
  /// - Parameters:
  ///   - duration: The time; nil if the resource named none, and zero names none. The first two such answers in a
  ///     row hold no call, and further ones do for `hold-for`, which doubles each time.
  ///   - reason: Why, for people to read, such as `HTTP 429`.
  /// - Returns: The outcome to report.
  public static func hold(for duration: Duration?, reason: String? = nil) -> CallOutcome {
    .hold(Hold(duration.map { .lasting($0) }, reason: reason))
  }

  /// A failed call: its effect on the breaker, and the error.
  public struct Failure: Sendable, Hashable {
    /// The effect of a failure on the breaker.
    ///
    /// A later version may add cases, so end a `switch` over a kind with `default`.
    #if hasAttribute(nonexhaustive)
      @nonexhaustive
    #endif
    public enum Kind: Sendable, Hashable {
      /// Counts towards the policy's trip conditions.
      case ordinary

      /// Opens the breaker at once, because trying again cannot help.
      ///
      /// If the policy's `reporters` is above 1, it opens a closed breaker only if that many
      /// processes, its own included, have reported failures since the last success. Until then it
      /// counts as an ordinary failure.
      case permanent

      /// Opens the breaker at once, for the time that the resource itself named.
      ///
      /// `reporters` holds it back as it does a permanent failure.
      case opens(for: Duration)
    }

    /// The effect of the failure on the breaker.
    public var kind: Kind

    /// A description of the error, for people to read; at most 1 KiB of it is kept.
    public var error: String?

    /// Creates a failure.
    public init(_ kind: Kind = .ordinary, error: String? = nil) {
      self.kind = kind
      self.error = error
    }
  }

  /// A failure that counts towards the policy's trip conditions.
  public static func failure(error: String? = nil) -> CallOutcome {
    .failure(Failure(.ordinary, error: error))
  }

  /// A failure that opens the breaker at once, or as soon as the policy's `reporters` allows it.
  public static func permanentFailure(error: String? = nil) -> CallOutcome {
    .failure(Failure(.permanent, error: error))
  }

  /// A failure that opens the breaker for the time that the resource named.
  ///
  /// It opens the breaker at once, or as soon as the policy's `reporters` allows it.
  ///
  /// - Parameters:
  ///   - duration: The time; nil if the resource named none, which makes it an ordinary failure.
  ///   - error: A description of the error, for people to read.
  /// - Returns: The outcome to report.
  public static func failure(opensFor duration: Duration?, error: String? = nil) -> CallOutcome {
    .failure(Failure(duration.map { .opens(for: $0) } ?? .ordinary, error: error))
  }
}

/// How the breaker took a reported outcome.
///
/// A later version may add cases, so end a `switch` over a verdict with `default`.
#if hasAttribute(nonexhaustive)
  @nonexhaustive
#endif
public enum ReportVerdict: Sendable, Hashable {
  /// The outcome was judged by the breaker's policy.
  case counted

  /// The state has changed since, a mode is forced, or what gave the permit is gone: the outcome changes no state.
  ///
  /// It counts in the totals as long as the breaker exists. It counts nowhere if the breaker was deleted, or if the
  /// permit was given, or the outcome reported, while the store could not be used.
  case outdated

  /// The probe had lost its lease, or the permit was used before: nothing was recorded.
  case refused
}
