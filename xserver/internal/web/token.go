package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

// Tokens makes and checks tokens. A token names its user and proves it by a secret
// that lives as long as this daemon: nothing is kept for each, and all end with a
// restart.
type Tokens struct{ secret [32]byte }

// NewTokens draws a secret.
func NewTokens() *Tokens {
	t := &Tokens{}
	_, _ = rand.Read(t.secret[:]) // never fails on Linux
	return t
}

const tokenPrefix = "xm1"

// Of is a user's token.
func (t *Tokens) Of(uid uint32) string {
	name := tokenPrefix + "-" + strconv.FormatUint(uint64(uid), 10)
	proof := hmac.New(sha256.New, t.secret[:])
	proof.Write([]byte(name))
	return name + "-" + hex.EncodeToString(proof.Sum(nil))
}

// user says whose a token is.
func (t *Tokens) user(token string) (uid uint32, ok bool) {
	parts := strings.Split(token, "-")
	if len(parts) != 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil {
		return 0, false
	}
	return uint32(n), hmac.Equal([]byte(token), []byte(t.Of(uint32(n))))
}

// bearer says on whose behalf a request comes.
func (t *Tokens) bearer(r *http.Request) (uid uint32, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return 0, false
	}
	return t.user(strings.TrimSpace(token))
}
