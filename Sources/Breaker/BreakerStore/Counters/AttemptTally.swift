package import BreakerCore
internal import CHost

/// How many first attempts have ended in each of the last seconds, and how many retries were sent, by all processes of a
/// host.
///
/// Marks of the counter of successes tell how many calls succeeded in each second, so a healthy call counts nothing here.
/// All other ends are noted one by one. So are the successes of retries, because the marks do not tell them apart. A retry
/// is counted by replacing the word of its second, so that no two processes take the last one of a budget. Other users may
/// write the memory: whatever they write counts for ten seconds at most. Unchecked because all access is atomic.
@safe package struct AttemptTally: @unchecked Sendable {
  /// How many successes had been counted when each second began.
  private let successes: BucketMarks

  /// A word for each second, by its number.
  private let words: UnsafeMutablePointer<UInt64>

  /// More than the seconds that count, so that a process which is late replaces none of them.
  private static let slots: Int64 = 16

  /// How many words a breaker has: its marks, and then a word for each second.
  static let wordCount = Int(BucketMarks.slots + slots)

  /// How many seconds count, with the present one.
  private static let secondsThatCount = Int64(TimeWindow.bucketCount)

  private static let second: Int64 = 1_000_000_000

  init(_ words: UnsafeMutablePointer<UInt64>) {
    unsafe successes = BucketMarks(words)
    unsafe self.words = words + Int(BucketMarks.slots)
  }

  /// Marks the beginning of the current second; call this before counting the first success in it.
  ///
  /// - Returns: How much longer the second lasts.
  func beginSecond(at now: () -> Instant, counting counter: UnsafePointer<UInt64>) -> Int64 {
    unsafe successes.begin(width: Self.second, at: now, counting: counter)
  }

  /// Notes that a first attempt has ended of which the marks do not tell.
  package func noteFirst(at now: () -> Instant) { change(at: now) { $0.adding(firsts: 1) } }

  /// Notes that a success of which the marks tell was that of a retry.
  package func noteSuccessOfRetry(at now: () -> Instant) {
    change(at: now) { $0.adding(retrySuccesses: 1) }
  }

  /// Counts a retry that is about to be sent, if a budget permits it.
  ///
  /// - Parameters:
  ///   - budget: The budget in force.
  ///   - counted: Reads the successes that were counted so far.
  ///   - now: Reads the clock.
  /// - Returns: Nil if it may be sent; otherwise how long until asking again makes sense, in nanoseconds.
  package func takeRetry(
    under budget: RetryBudget, counted: () -> Int64, at now: () -> Instant
  ) -> Int64? {
    while true {
      let present = present(at: now)
      guard budget.permitsRetry(after: recent(until: present, counted)) else {
        return wait(after: present, at: now)
      }
      let next = present.word.adding(retries: 1)
      // A word that is full would count no more.
      guard next.bits != present.word.bits else { return wait(after: present, at: now) }
      if replace(present, by: next) { return nil }
    }
  }

  /// How long until asking again makes sense, in nanoseconds; nil if a budget permits a retry now.
  package func retryWait(
    under budget: RetryBudget, counted: () -> Int64, at now: () -> Instant
  ) -> Int64? {
    let present = present(at: now)
    let isPermitted = budget.permitsRetry(after: recent(until: present, counted))
    return isPermitted ? nil : wait(after: present, at: now)
  }

  /// The attempts of the last ten seconds.
  package func recent(counted: () -> Int64, at now: () -> Instant) -> RecentAttempts {
    recent(until: present(at: now), counted)
  }

  func clear() {
    successes.clear()
    for index in 0..<Int(Self.slots) { unsafe sb_set(words.advanced(by: index), 0) }
  }
}

extension AttemptTally {
  /// One second in one word, so it is never half written.
  private struct SecondWord {
    var bits: UInt64

    private static let firsts = Field(shift: 0, bits: 16)
    private static let retries = Field(shift: 16, bits: 14)
    private static let retrySuccesses = Field(shift: 30, bits: 14)
    private static let tag = Field(shift: 44, bits: 20)

    private struct Field {
      var shift: UInt64
      var most: UInt64

      init(shift: UInt64, bits: UInt64) {
        self.shift = shift
        most = (1 << bits) - 1
      }

      func value(in bits: UInt64) -> UInt64 { bits >> shift & most }

      /// The bits with more of it; a count that is full stays as it is.
      func adding(_ count: UInt64, to bits: UInt64) -> UInt64 {
        count <= most - value(in: bits) ? bits + count << shift : bits
      }
    }

    init(bits: UInt64) { self.bits = bits }

    /// The word of a second in which nothing has happened.
    init(of number: Int64) { bits = UInt64(bitPattern: number) << Self.tag.shift }

    func isOf(_ number: Int64) -> Bool {
      Self.tag.value(in: bits) == UInt64(bitPattern: number) & Self.tag.most
    }

    /// Whether it is the word of a second that comes after another one.
    func isAfter(_ number: Int64) -> Bool {
      let distance = (Self.tag.value(in: bits) &- UInt64(bitPattern: number)) & Self.tag.most
      return bits != 0 && distance != 0 && distance <= Self.tag.most / 2
    }

    var firsts: Int64 { Int64(Self.firsts.value(in: bits)) }
    var retries: Int64 { Int64(Self.retries.value(in: bits)) }
    var retrySuccesses: Int64 { Int64(Self.retrySuccesses.value(in: bits)) }

    func adding(
      firsts: UInt64 = 0, retries: UInt64 = 0, retrySuccesses: UInt64 = 0
    ) -> SecondWord {
      var next = bits
      next = Self.firsts.adding(firsts, to: next)
      next = Self.retries.adding(retries, to: next)
      next = Self.retrySuccesses.adding(retrySuccesses, to: next)
      return SecondWord(bits: next)
    }
  }

  /// The current second, and what its place has in memory.
  private struct Present {
    var number: Int64
    var found: UInt64

    var word: SecondWord {
      let found = SecondWord(bits: found)
      return found.isOf(number) ? found : SecondWord(of: number)
    }
  }

  private func present(at now: () -> Instant) -> Present {
    let early = look(at: now)
    // Another process may have begun a second after this one has read the clock; a damaged word may stay ahead.
    return SecondWord(bits: early.found).isAfter(early.number) ? look(at: now) : early
  }

  private func look(at now: () -> Instant) -> Present {
    let number = max(0, now().nanoseconds) / Self.second
    return unsafe Present(number: number, found: sb_load(word(of: number)))
  }

  private func change(at now: () -> Instant, _ next: (SecondWord) -> SecondWord) {
    while true {
      let present = present(at: now)
      if replace(present, by: next(present.word)) { return }
    }
  }

  private func replace(_ present: Present, by next: SecondWord) -> Bool {
    unsafe sb_replace(word(of: present.number), present.found, next.bits) != 0
  }

  private func word(of number: Int64) -> UnsafeMutablePointer<UInt64> {
    unsafe words.advanced(by: Int(number % Self.slots))
  }

  private func recent(until present: Present, _ counted: () -> Int64) -> RecentAttempts {
    var recent = RecentAttempts()
    recent.retriesInSecond = present.word.retries
    var retrySuccesses: Int64 = 0
    for number in max(0, present.number - Self.secondsThatCount + 1)...present.number {
      let word =
        number == present.number
        ? present.word : unsafe SecondWord(bits: sb_load(word(of: number)))
      guard word.isOf(number) else { continue }
      recent.firsts += word.firsts
      recent.retries += word.retries
      retrySuccesses += word.retrySuccesses
    }
    let end = Instant(nanoseconds: present.number * Self.second)
    let marked = successes.buckets(
      at: end, width: Self.second, total: counted(), latest: .max
    ).reduce(0) { $0 + $1.successes }
    recent.firsts += max(0, marked - retrySuccesses)
    return recent
  }

  private func wait(after present: Present, at now: () -> Instant) -> Int64 {
    max(1, (present.number + 1) * Self.second - now().nanoseconds)
  }
}
